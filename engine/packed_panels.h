// Weights in the panels that engine/gemm_loops.h describes: what native backends hold.
//
// Thread contract: packing is one thread's and uses the pool; the result is immutable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/aligned_buffer.h"
#include "engine/gemm.h"
#include "engine/gemm_loops.h"
#include "engine/gemm_shapes.h"

namespace espalier::engine {

class PackedPanels final : public PackedMatrix {
 public:
  /// Bytes that a matrix takes.
  static size_t bytes(NumberFormat format, size_t outputs, size_t inputs);

  /// One output for each of `rows`, whose tensors have `inputs` columns. `outputs` is what the
  /// matrix says it has, when zeros are among the rows.
  PackedPanels(ThreadPool& pool, NumberFormat format, std::span<const SourceRow> rows,
               size_t outputs, size_t inputs);

  size_t outputs() const override { return outputs_; }
  size_t inputs() const override { return inputs_; }
  NumberFormat format() const { return format_; }

  size_t panels() const { return panels_; }
  /// Groups of inputs in a panel.
  size_t groups() const { return groups_; }
  const std::byte* panel(size_t index) const { return data() + index * panel_bytes(); }
  size_t panel_bytes() const { return groups_ * 4 * kPanelWidth; }
  /// Of a kInt8 matrix.
  PanelScales scales(size_t index) const {
    return {zero_sums_.data() + index * kPanelWidth, weight_scales_.data() + index * kPanelWidth};
  }

 private:
  const std::byte* data() const { return reinterpret_cast<const std::byte*>(memory_.data()); }
  void pack_panel(size_t index, std::span<const SourceRow> rows);
  void pack_output(size_t panel, size_t output, std::span<const float> weights);

  NumberFormat format_;
  size_t outputs_, inputs_;
  size_t panels_, groups_;
  AlignedBuffer memory_;
  std::vector<int32_t> zero_sums_;
  std::vector<float> weight_scales_;
};

}  // namespace espalier::engine
