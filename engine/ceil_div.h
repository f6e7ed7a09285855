// Division that rounds up: how many blocks of `b` hold `a`.
#pragma once

#include <cstddef>

namespace espalier::engine {

constexpr size_t ceil_div(size_t a, size_t b) { return (a + b - 1) / b; }

}  // namespace espalier::engine
