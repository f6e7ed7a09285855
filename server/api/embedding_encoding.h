// How the numbers of an embedding are written.
//
// Thread contract: functions without state.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/api_error.h"

namespace espalier::server {

enum class EmbeddingEncoding : uint8_t {
  kFloat,   // array of f32
  kBase64,  // string: base64 of little-endian f32
  kInt8,    // array of round(127 x / max |x|), for cosine similarity: the scale is the vector's own
  kUint8,   // the same plus 128
  // Array of signed bytes: eight signs each (1: positive), the first the highest bit, minus 128.
  kBinary,
  kUbinary,  // the same bits as unsigned bytes
};

/// "float", "base64", "int8", "uint8", "binary" or "ubinary"; nullopt for other names.
std::optional<EmbeddingEncoding> embedding_encoding(std::string_view name);
/// The name of `encoding`.
std::string_view name_of(EmbeddingEncoding encoding);

/// What a field of an unknown encoding's name is told (kInvalidRequest).
ApiError unknown_encoding(const std::string& field);

/// Appends `embedding` as JSON; false if a value is not finite.
bool append_embedding(std::span<const float> embedding, EmbeddingEncoding encoding,
                      std::string& out);

/// What a client is told then (kInternal).
ApiError not_finite(size_t input);

/// Bytes that a value takes at most, twice while the text grows.
size_t text_bytes_per_value(EmbeddingEncoding encoding);

/// Appends [embedding, …] as JSON; not_finite() for the first with such a value.
std::optional<ApiError> append_embedding_list(const std::vector<std::vector<float>>& embeddings,
                                              EmbeddingEncoding encoding, std::string& out);

}  // namespace espalier::server
