// Every backend and number format that this CPU offers, for tests that hold for all of them.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "engine/cpu_features.h"
#include "engine/gemm.h"

namespace espalier::reference {

struct NamedBackend {
  std::string name;  // "native_bf16"
  std::shared_ptr<const engine::GemmBackend> gemm;
  bool fixed_bits;  // the same text gives the same bits in any batch

  engine::NumberFormat format() const { return gemm->format(); }
  /// What the cosine of a result to the exact one must exceed.
  double least_cosine() const {
    switch (format()) {
      case engine::NumberFormat::kF32:
        return 0.99999;
      case engine::NumberFormat::kBf16:
        return 0.999;
      case engine::NumberFormat::kInt8:
        return 0.99;
    }
    return 1;
  }
};

/// With the instruction set that ESPALIER_ISA allows.
inline std::vector<NamedBackend> offered_backends() {
  using engine::NumberFormat;
  const engine::Isa isa = engine::usable_isa();
  std::vector<NamedBackend> backends = {{"openblas_f32", engine::make_openblas_gemm(), false}};
  for (const auto format : {NumberFormat::kF32, NumberFormat::kBf16, NumberFormat::kInt8}) {
    const std::string suffix = "_" + std::string(name_of(format));
    backends.push_back({"native" + suffix, engine::make_native_gemm(format, isa), true});
    try {
      backends.push_back({"onednn" + suffix, engine::make_onednn_gemm(format, isa), false});
    } catch (const std::runtime_error&) {
      // refused on this CPU, with advice
    }
  }
  return backends;
}

}  // namespace espalier::reference
