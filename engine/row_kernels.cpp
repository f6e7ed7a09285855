#include "engine/row_kernels.h"

#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string>

#include "engine/row_loops.h"
#include "engine/row_loops_tables.h"

namespace espalier::engine {
namespace {

/// Lengths that disagree are a mistake in the program; memory would be overrun.
void require_equal(const char* kernel, size_t a, size_t b) {
  if (a == b) return;
  throw std::invalid_argument(std::string(kernel) + ": lengths " + std::to_string(a) + " and " +
                              std::to_string(b) + " disagree");
}

}  // namespace

const RowLoops& row_loops_for(Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::kAvx512) return kAvx512RowLoops;
  if (isa == Isa::kAvx2) return kAvx2RowLoops;
#endif
  (void)isa;
  return kScalarRowLoops;
}

const RowLoops& row_loops() {
  static const RowLoops& chosen = row_loops_for(usable_isa());
  return chosen;
}

void rms_norm(std::span<const float> x, std::span<const float> weight, float eps,
              std::span<float> out) {
  require_equal("rms_norm", x.size(), weight.size());
  require_equal("rms_norm", x.size(), out.size());
  if (x.empty()) return;
  row_loops().rms_norm(x.data(), weight.data(), eps, x.size(), out.data());
}

void rms_norm(std::span<const float> x, std::span<const float> weight, float eps, Activations out,
              size_t row) {
  require_equal("rms_norm", x.size(), weight.size());
  require_equal("rms_norm", x.size(), out.cols);
  std::byte* const to = out.row(row);
  switch (out.format) {
    case NumberFormat::kF32:
      row_loops().rms_norm(x.data(), weight.data(), eps, x.size(), reinterpret_cast<float*>(to));
      break;
    case NumberFormat::kBf16:
      row_loops().rms_norm_bf16(x.data(), weight.data(), eps, x.size(),
                                reinterpret_cast<uint16_t*>(to));
      break;
    case NumberFormat::kInt8:
      out.scales[row] = row_loops().rms_norm_int8(x.data(), weight.data(), eps, x.size(),
                                                  reinterpret_cast<uint8_t*>(to));
      break;
  }
  zero_padding(out, row);
}

void write_row(std::span<const float> x, Activations out, size_t row) {
  require_equal("write_row", x.size(), out.cols);
  std::byte* const to = out.row(row);
  switch (out.format) {
    case NumberFormat::kF32:
      std::memcpy(to, x.data(), x.size_bytes());
      break;
    case NumberFormat::kBf16:
      row_loops().to_bf16(x.data(), x.size(), reinterpret_cast<uint16_t*>(to));
      break;
    case NumberFormat::kInt8:
      out.scales[row] = row_loops().to_int8(x.data(), x.size(), reinterpret_cast<uint8_t*>(to));
      break;
  }
  zero_padding(out, row);
}

void write_row(ConstActivations x, size_t from_row, Activations out, size_t row) {
  require_equal("write_row", x.cols, out.cols);
  const std::byte* const from = x.row(from_row);
  if (x.format == NumberFormat::kF32) {
    write_row(std::span(reinterpret_cast<const float*>(from), x.cols), out, row);
  } else if (x.format == out.format) {
    std::memcpy(out.row(row), from, x.cols * bytes_of(x.format));
    if (x.format == NumberFormat::kInt8) out.scales[row] = x.scales[from_row];
    zero_padding(out, row);
  } else if (x.format == NumberFormat::kBf16 && out.format == NumberFormat::kInt8) {
    out.scales[row] = row_loops().bf16_to_int8(reinterpret_cast<const uint16_t*>(from), x.cols,
                                               reinterpret_cast<uint8_t*>(out.row(row)));
    zero_padding(out, row);
  } else {
    throw std::invalid_argument("write_row: " + std::string(name_of(x.format)) + " to " +
                                std::string(name_of(out.format)));
  }
}

void zero_padding(Activations out, size_t row) {
  const size_t used = out.cols * bytes_of(out.format);
  const size_t whole = activation_stride(out.format, out.cols);
  if (used < whole) std::memset(out.row(row) + used, 0, whole - used);
}

void add(std::span<float> x, std::span<const float> y) {
  require_equal("add", x.size(), y.size());
  row_loops().add(x.data(), y.data(), x.size());
}

void gate(ActivationFunction activation, std::span<const float> gate_up, std::span<float> out) {
  require_equal("gate", gate_up.size(), 2 * out.size());
  const RowLoops& loops = row_loops();
  const auto loop = activation == ActivationFunction::kSilu   ? loops.swiglu
                    : activation == ActivationFunction::kGelu ? loops.geglu
                                                              : loops.geglu_tanh;
  loop(gate_up.data(), gate_up.data() + out.size(), out.size(), out.data());
}

RopeTable::RopeTable(std::span<const double> frequencies, double factor, size_t positions)
    : half_(frequencies.size()) {
  cos_.reserve(positions * half_);
  sin_.reserve(positions * half_);
  for (size_t position = 0; position < positions; ++position) {
    for (const double frequency : frequencies) {
      const double angle = static_cast<double>(position) * frequency;
      cos_.push_back(static_cast<float>(factor * std::cos(angle)));
      sin_.push_back(static_cast<float>(factor * std::sin(angle)));
    }
  }
}

std::span<const float> RopeTable::cos(size_t position) const {
  return std::span(cos_).subspan(position * half_, half_);
}

std::span<const float> RopeTable::sin(size_t position) const {
  return std::span(sin_).subspan(position * half_, half_);
}

void apply_rope(std::span<float> head, std::span<const float> cos, std::span<const float> sin) {
  require_equal("apply_rope", head.size(), 2 * cos.size());
  require_equal("apply_rope", head.size(), 2 * sin.size());
  row_loops().rope(head.data(), cos.data(), sin.data(), cos.size());
}

}  // namespace espalier::engine
