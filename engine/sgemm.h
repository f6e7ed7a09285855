// Single-threaded f32 matrix products by OpenBLAS, callable from any number of threads at once.
//
// OpenBLAS is opened at run time, at the first call: only so can its kernel set be chosen from
// CPUID before its constructor looks at the CPU (Debian's 0.3.21 falls back to SSE3 or AVX2 kernels
// on CPUs that it does not know, up to 4 × slower, silently). The environment variable
// OPENBLAS_CORETYPE wins when the user has set it; otherwise it is set from usable_isa()
// (engine/cpu_features.h).
//
// Thread contract: the first call of any of these functions changes the environment (setenv), so
// make it from the main thread at start-up, before other threads may read the environment; for
// instance by logging openblas_kernel_set(). It throws std::runtime_error when the library is
// missing. All later calls may come from any thread. Shapes that disagree abort: they are a mistake
// in the program.
#pragma once

#include <string>

#include "engine/mat_view.h"

namespace espalier::engine {

/// c = alpha · a · bᵀ + beta · c, for a (M × K), b (N × K), c (M × N). beta 0 does not read c.
void sgemm_nt(float alpha, ConstMatView a, ConstMatView b, float beta, MutMatView c);

/// The name of OpenBLAS's kernel set in use ("SkylakeX", "Haswell", …).
std::string openblas_kernel_set();

}  // namespace espalier::engine
