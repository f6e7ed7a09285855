// Which number format and which matrix-product backend a command runs with.
#pragma once

#include <memory>
#include <string>

#include "engine/gemm.h"

namespace espalier::commands {

/// The format that `dtype` ("auto", "f32", "bf16", "int8") names. auto: bf16 where the CPU
/// multiplies bf16 numbers (AMX-BF16 or AVX512-BF16), else f32.
engine::NumberFormat number_format(const std::string& dtype);

/// The backend that `gemm` ("auto", "native", "onednn", "openblas") names; auto: native. Throws
/// std::runtime_error with advice when it lacks the format on this CPU.
std::shared_ptr<const engine::GemmBackend> choose_gemm(const std::string& gemm,
                                                       engine::NumberFormat format);

}  // namespace espalier::commands
