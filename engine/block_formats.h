// GGML's block formats to f32, as GGUF files hold them: runs of 32 or 256 weights that share
// scales. Each result is the one of the format's definition (ggml-quants.c) to the last bit: the
// products and sums are the same, in the same order, and none is fused.
//
// Thread contract: pure functions.
#pragma once

#include <cstddef>

namespace espalier::engine {

constexpr size_t kShortBlock = 32;  // weights of a Q4_0, Q4_1, Q5_0, Q5_1 or Q8_0
constexpr size_t kSuperBlock =
    256;  // of a Q2_K … Q6_K: 8 or 16 groups with small scales of their own

/// Reads `count` blocks, which lie one behind the other at any address.
using DequantiseBlocks = void (*)(const std::byte* blocks, size_t count, float* out);

void dequantise_q4_0(const std::byte* blocks, size_t count, float* out);  // 18 bytes a block
void dequantise_q4_1(const std::byte* blocks, size_t count, float* out);  // 20
void dequantise_q5_0(const std::byte* blocks, size_t count, float* out);  // 22
void dequantise_q5_1(const std::byte* blocks, size_t count, float* out);  // 24
void dequantise_q8_0(const std::byte* blocks, size_t count, float* out);  // 34
void dequantise_q2_k(const std::byte* blocks, size_t count, float* out);  // 84
void dequantise_q3_k(const std::byte* blocks, size_t count, float* out);  // 110
void dequantise_q4_k(const std::byte* blocks, size_t count, float* out);  // 144
void dequantise_q5_k(const std::byte* blocks, size_t count, float* out);  // 176
void dequantise_q6_k(const std::byte* blocks, size_t count, float* out);  // 210

}  // namespace espalier::engine
