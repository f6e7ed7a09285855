#include "server/commands/gemm_choice.h"

#include <stdexcept>

#include "engine/cpu_features.h"

namespace espalier::commands {

using engine::NumberFormat;

NumberFormat number_format(const std::string& dtype) {
  if (dtype == "f32") return NumberFormat::kF32;
  if (dtype == "bf16") return NumberFormat::kBf16;
  if (dtype == "int8") return NumberFormat::kInt8;
  return engine::usable_isa() >= engine::Isa::kAvx512Bf16 ? NumberFormat::kBf16
                                                          : NumberFormat::kF32;
}

std::shared_ptr<const engine::GemmBackend> choose_gemm(const std::string& gemm,
                                                       NumberFormat format) {
  if (gemm == "openblas") {
    if (format != NumberFormat::kF32) {
      throw std::runtime_error(
          "--gemm openblas computes in f32 alone; give --dtype f32, or --gemm "
          "native for " +
          std::string(name_of(format)));
    }
    return engine::make_openblas_gemm();
  }
  if (gemm == "onednn") return engine::make_onednn_gemm(format, engine::usable_isa());
  return engine::make_native_gemm(format, engine::usable_isa());
}

}  // namespace espalier::commands
