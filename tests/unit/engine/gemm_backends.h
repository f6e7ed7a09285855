// The GEMM backends that this build has, for tests that hold for all of them.
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "engine/cpu_features.h"
#include "engine/gemm.h"

namespace espalier::engine {

struct BackendCase {
  std::string name;  // "native_bf16_avx512"
  NumberFormat format = NumberFormat::kF32;
  Isa isa = Isa::kScalar;      // the least that it needs
  Isa offered = Isa::kScalar;  // what there is: ESPALIER_ISA caps libraries, not our own kernels
  std::function<std::unique_ptr<GemmBackend>()> make;
};

/// How GoogleTest prints it.
inline void PrintTo(const BackendCase& backend, std::ostream* out) { *out << backend.name; }

inline constexpr Isa kEveryIsa[] = {Isa::kScalar,     Isa::kAvx2,       Isa::kAvx512,
                                    Isa::kAvx512Vnni, Isa::kAvx512Bf16, Isa::kAmx};
inline constexpr NumberFormat kEveryFormat[] = {NumberFormat::kF32, NumberFormat::kBf16,
                                                NumberFormat::kInt8};

inline std::vector<BackendCase> native_backends() {
  std::vector<BackendCase> cases;
  for (const NumberFormat format : kEveryFormat) {
    for (const Isa isa : kEveryIsa) {
      cases.push_back({"native_" + std::string(name_of(format)) + "_" + std::string(name_of(isa)),
                       format, isa, detected_isa(), [=] { return make_native_gemm(format, isa); }});
    }
  }
  return cases;
}

inline std::vector<BackendCase> every_backend() {
  std::vector<BackendCase> cases = native_backends();
  const auto add_onednn = [&](NumberFormat format, Isa least) {
    cases.push_back({"onednn_" + std::string(name_of(format)), format, least, usable_isa(),
                     [=] { return make_onednn_gemm(format, usable_isa()); }});
  };
  add_onednn(NumberFormat::kF32, Isa::kScalar);
  add_onednn(NumberFormat::kBf16, Isa::kAvx512);
  add_onednn(NumberFormat::kInt8, Isa::kAvx512Vnni);
  cases.push_back(
      {"openblas_f32", NumberFormat::kF32, Isa::kScalar, usable_isa(), make_openblas_gemm});
  return cases;
}

}  // namespace espalier::engine
