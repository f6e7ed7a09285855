// The tables that gemm_loops.cpp and gemm_loops_amx.cpp become, one an instruction set. Internal to
// them and to native_gemm.cpp.
#pragma once

#include "engine/gemm_loops.h"

namespace espalier::engine {

extern const GemmLoops kScalarGemmLoops;
#if defined(__x86_64__)
extern const GemmLoops kAvx2GemmLoops;
extern const GemmLoops kAvx512GemmLoops;
extern const GemmLoops kAvx512VnniGemmLoops;
extern const GemmLoops kAvx512Bf16GemmLoops;

/// AMX's products; everything else is AVX-512's.
void amx_begin();
void amx_end();
void amx_bf16(const std::byte* x, size_t x_stride, size_t rows, const std::byte* panel,
              size_t groups, ReadAhead ahead, void* tile);
void amx_int8(const std::byte* x, size_t x_stride, size_t rows, const std::byte* panel,
              size_t groups, ReadAhead ahead, void* tile);
#endif

}  // namespace espalier::engine
