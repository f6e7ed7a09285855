#include "engine/packed_panels.h"

#include <algorithm>
#include <cstring>

#include "engine/bf16.h"
#include "engine/ceil_div.h"
#include "engine/weight_quantisation.h"

namespace espalier::engine {
namespace {

/// Whole rows of activations: see engine/gemm_loops.h.
size_t groups_for(NumberFormat format, size_t inputs) {
  return activation_stride(format, inputs) / 4;
}

}  // namespace

size_t PackedPanels::bytes(NumberFormat format, size_t outputs, size_t inputs) {
  const size_t panels = ceil_div(outputs, kPanelWidth);
  const size_t scales =
      format == NumberFormat::kInt8 ? panels * kPanelWidth * (sizeof(int32_t) + sizeof(float)) : 0;
  return panels * groups_for(format, inputs) * 4 * kPanelWidth + scales;
}

PackedPanels::PackedPanels(ThreadPool& pool, NumberFormat format, std::span<const SourceRow> rows,
                           size_t outputs, size_t inputs)
    : format_(format),
      outputs_(outputs),
      inputs_(inputs),
      panels_(ceil_div(rows.size(), kPanelWidth)),
      groups_(groups_for(format, inputs)),
      memory_(panels_ * groups_ * kPanelWidth) {
  if (format == NumberFormat::kInt8) {
    zero_sums_.resize(panels_ * kPanelWidth);
    weight_scales_.resize(panels_ * kPanelWidth);
  }
  pool.parallel_for(panels_, [&](size_t index, size_t) { pack_panel(index, rows); });
}

void PackedPanels::pack_panel(size_t index, std::span<const SourceRow> rows) {
  std::memset(reinterpret_cast<std::byte*>(memory_.data()) + index * panel_bytes(), 0,
              panel_bytes());
  std::vector<float> weights(inputs_);
  const size_t first = index * kPanelWidth;
  for (size_t output = 0; output < std::min(kPanelWidth, rows.size() - first); ++output) {
    const SourceRow source = rows[first + output];
    if (source.tensor == nullptr) continue;
    convert_to_f32(*source.tensor, source.row * inputs_, inputs_, weights.data());
    pack_output(index, output, weights);
  }
}

void PackedPanels::pack_output(size_t panel, size_t output, std::span<const float> weights) {
  auto* const words = memory_.data() + panel * groups_ * kPanelWidth + output;
  auto* const bytes = reinterpret_cast<std::byte*>(words);
  constexpr size_t kGroupBytes = 4 * kPanelWidth;
  switch (format_) {
    case NumberFormat::kF32:
      for (size_t i = 0; i < weights.size(); ++i) words[i * kPanelWidth] = weights[i];
      return;
    case NumberFormat::kBf16:
      for (size_t i = 0; i < weights.size(); ++i) {
        const uint16_t value = bf16_from_f32(weights[i]);
        std::memcpy(bytes + i / 2 * kGroupBytes + i % 2 * sizeof(value), &value, sizeof(value));
      }
      return;
    case NumberFormat::kInt8: {
      std::vector<int8_t> integers(weights.size());
      const QuantisedOutput quantised = quantise_weights(weights, integers);
      for (size_t i = 0; i < integers.size(); ++i) {
        std::memcpy(bytes + i / 4 * kGroupBytes + i % 4, &integers[i], sizeof(integers[i]));
      }
      zero_sums_[panel * kPanelWidth + output] = quantised.zero_sum;
      weight_scales_[panel * kPanelWidth + output] = quantised.scale;
      return;
    }
  }
}

}  // namespace espalier::engine
