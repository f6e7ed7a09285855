// The instruction set that our loops and OpenBLAS are allowed to use: what the CPU and the
// operating system offer, capped by the environment variable ESPALIER_ISA (see name_of).
//
// Thread contract: all functions may be called from any thread. The environment is read once, by
// the first call of usable_isa().
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace espalier::engine {

/// Ordered: a CPU that has one has all that are smaller.
enum class Isa : uint8_t {
  kScalar,      // what the compiler's target has: SSE2 on x86-64
  kAvx2,        // AVX2 and FMA
  kAvx512,      // AVX-512 F, BW, DQ and VL
  kAvx512Vnni,  // and VNNI: products of bytes (Cascade Lake, Ice Lake)
  kAvx512Bf16,  // and BF16: products of bf16 (Cooper Lake, Zen 4)
  kAmx,         // and AMX-TILE, -INT8 and -BF16 (Sapphire Rapids)
};

/// "scalar", "avx2", "avx512", "avx512vnni", "avx512bf16", "amx": what ESPALIER_ISA accepts.
std::string_view name_of(Isa isa);

/// What this CPU and operating system offer. Asks the system for the use of AMX's registers, once a
/// process, where the CPU has them.
Isa detected_isa();

/// The smaller of `detected` and `cap`, the value of ESPALIER_ISA (null or empty: no cap). Throws
/// std::runtime_error with the valid values when `cap` is none of them.
Isa capped_isa(Isa detected, const char* cap);

/// capped_isa() of this CPU and the environment; throws like it.
Isa usable_isa();

/// For `--version` and logs: "avx512", or "avx2 (ESPALIER_ISA; the CPU has avx512)".
std::string isa_description();

}  // namespace espalier::engine
