#include "engine/sgemm.h"

#include <cblas.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <limits>
#include <stdexcept>

#include "engine/cpu_features.h"

namespace espalier::engine {
namespace {

constexpr const char* kLibrary = "libopenblas.so.0";

/// The functions that we use; never unloaded.
struct OpenBlas {
  decltype(&cblas_sgemm) sgemm;
  decltype(&openblas_get_corename) get_corename;
};

template <typename Function>
Function resolve(void* library, const char* name) {
  void* const symbol = dlsym(library, name);
  if (symbol == nullptr) {
    throw std::runtime_error(std::string(kLibrary) + " has no function " + name +
                             ": it is not OpenBLAS; install Debian's libopenblas0-pthread");
  }
  return reinterpret_cast<Function>(symbol);
}

/// The kernel set for this CPU, or null when OpenBLAS's own choice is as good. OpenBLAS 0.3.21
/// knows CPU models by number and takes old kernels for models that came later.
const char* kernel_set_for(Isa usable, Isa detected) {
  if (usable >= Isa::kAvx512) return "SkylakeX";
  if (usable == Isa::kAvx2) return "Haswell";
  // Asked not to use AVX on a CPU that has it: every such CPU runs the SSE4.2 kernels.
  return detected == Isa::kScalar ? nullptr : "Nehalem";
}

OpenBlas open_openblas() {
  // OpenBLAS's constructor reads both. The user's own choice of a core type stays.
  const char* const chosen = std::getenv("OPENBLAS_CORETYPE");
  const char* const kernels = kernel_set_for(usable_isa(), detected_isa());
  if ((chosen == nullptr || *chosen == '\0') && kernels != nullptr) {
    setenv("OPENBLAS_CORETYPE", kernels, /*overwrite=*/1);
  }
  setenv("OPENBLAS_NUM_THREADS", "1", /*overwrite=*/1);
  void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const reason = dlerror();
    throw std::runtime_error(std::string("cannot open ") + kLibrary + " (" +
                             (reason != nullptr ? reason : "no reason given") +
                             "); install Debian's libopenblas0-pthread");
  }
  const OpenBlas openblas{
      .sgemm = resolve<decltype(&cblas_sgemm)>(library, "cblas_sgemm"),
      .get_corename = resolve<decltype(&openblas_get_corename)>(library, "openblas_get_corename"),
  };
  // The OpenMP build does not read OPENBLAS_NUM_THREADS in every case.
  resolve<decltype(&openblas_set_num_threads)>(library, "openblas_set_num_threads")(1);
  return openblas;
}

const OpenBlas& openblas() {
  // The language makes the first call thread-safe, and repeats it if it threw.
  static const OpenBlas opened = open_openblas();
  return opened;
}

blasint as_blasint(size_t value) {
  if (value > static_cast<size_t>(std::numeric_limits<blasint>::max())) {
    std::fprintf(stderr, "sgemm: a dimension of %zu is more than OpenBLAS can take\n", value);
    std::abort();
  }
  return static_cast<blasint>(value);
}

void require_shapes(bool agree, ConstMatView a, ConstMatView b, MutMatView c) {
  if (agree && a.stride >= a.cols && b.stride >= b.cols && c.stride >= c.cols) return;
  std::fprintf(stderr, "sgemm: shapes disagree: a %zu x %zu, b %zu x %zu, c %zu x %zu\n", a.rows,
               a.cols, b.rows, b.cols, c.rows, c.cols);
  std::abort();
}

}  // namespace

void sgemm_nt(float alpha, ConstMatView a, ConstMatView b, float beta, MutMatView c) {
  require_shapes(a.cols == b.cols && c.rows == a.rows && c.cols == b.rows, a, b, c);
  if (c.rows == 0 || c.cols == 0) return;
  // With an empty sum strides may be 0, which BLAS refuses; it reads none of a and b then.
  const auto stride = [](size_t value) { return as_blasint(value == 0 ? 1 : value); };
  openblas().sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, as_blasint(c.rows), as_blasint(c.cols),
                   as_blasint(a.cols), alpha, a.data, stride(a.stride), b.data, stride(b.stride),
                   beta, c.data, stride(c.stride));
}

std::string openblas_kernel_set() { return openblas().get_corename(); }

}  // namespace espalier::engine
