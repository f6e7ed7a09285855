// The backend that multiplies with oneDNN. A product is cut into blocks of rows times blocks of
// outputs; each is one primitive, which runs in the thread that takes the task.
//
// What the library makes us do (2.6.3, measured):
//   * Its fast kernels want operands without gaps between rows. So inputs are padded to the stride
//     of activations, and results go to memory of the thread's, from which a pass of ours stores or
//     adds them, and scales those of int8 (scales per row have no fast primitive).
//   * Its fast kernels want the number of rows in advance. So there is a fixed set of numbers, for
//     which primitives are made when a matrix is packed, and blocks are padded up to the next.
//   * int8 below VNNI saturates silently; bf16 below AVX-512 has no primitive. Both are refused.
#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <dnnl.hpp>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "engine/aligned_buffer.h"
#include "engine/bf16.h"
#include "engine/ceil_div.h"
#include "engine/gemm.h"
#include "engine/gemm_shapes.h"
#include "engine/row_kernels.h"
#include "engine/row_loops.h"
#include "engine/weight_quantisation.h"

namespace espalier::engine {
namespace {

/// Outputs of a block, but for a matrix's last: its results, with kBlockRows, stay in the
/// second-level cache until the pass over them.
constexpr size_t kBlockOutputs = 256;
/// Numbers of rows that there are primitives for.
constexpr size_t kBlockRows[] = {1, 2, 4, 8, 16, 32, 48, 64, 80, 96, 112, 128};
constexpr size_t kMostBlockRows = 128;

constexpr size_t in_cache_lines(size_t bytes) {
  return ceil_div(bytes, kBufferAlignment) * kBufferAlignment;
}

dnnl::memory::dim dim(size_t value) { return static_cast<dnnl::memory::dim>(value); }

dnnl::cpu_isa library_isa(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return dnnl::cpu_isa::sse41;  // the least that it knows
    case Isa::kAvx2:
      return dnnl::cpu_isa::avx2;
    case Isa::kAvx512:
      return dnnl::cpu_isa::avx512_core;
    case Isa::kAvx512Vnni:
      return dnnl::cpu_isa::avx512_core_vnni;
    case Isa::kAvx512Bf16:
      return dnnl::cpu_isa::avx512_core_bf16;
    case Isa::kAmx:
      break;
  }
  return dnnl::cpu_isa::avx512_core_amx;
}

/// The CPU as the library sees it, capped by ESPALIER_ISA before its first use. Never destroyed:
/// threads that use it may end after static objects do.
const dnnl::engine& cpu() {
  static const dnnl::engine* const engine = [] {
    if (usable_isa() < detected_isa() &&
        dnnl::set_max_cpu_isa(library_isa(usable_isa())) != dnnl::status::success) {
      throw std::runtime_error("oneDNN cannot be limited to " + std::string(name_of(usable_isa())) +
                               "; unset ESPALIER_ISA or choose the native backend");
    }
    return new dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return *engine;
}

/// A thread's means of running primitives, and memory for what one of them needs. The memory only
/// grows, so that products allocate none once the largest has been seen.
class ThreadContext {
 public:
  static ThreadContext& of_this_thread() {
    thread_local ThreadContext context;
    return context;
  }

  dnnl::stream& stream() { return stream_; }

  std::byte* memory(size_t bytes) {
    const size_t floats = ceil_div(bytes, sizeof(float));
    if (floats > memory_.size()) memory_ = AlignedBuffer(floats);
    return reinterpret_cast<std::byte*>(memory_.data());
  }

 private:
  // Debian's library runs primitives with as many OpenMP threads as the calling thread's setting
  // says. Its OpenMP, of whatever make, is found at run time: we use none ourselves.
  ThreadContext() : stream_(cpu()) {
    using SetNumThreads = void (*)(int);
    void* const symbol = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
    if (symbol != nullptr) reinterpret_cast<SetNumThreads>(symbol)(1);
  }

  dnnl::stream stream_;
  AlignedBuffer memory_;
};

/// The types that the library multiplies.
struct Types {
  dnnl::memory::data_type x, weights, y;
};

Types types_of(NumberFormat format) {
  using Type = dnnl::memory::data_type;
  switch (format) {
    case NumberFormat::kF32:
      return {Type::f32, Type::f32, Type::f32};
    case NumberFormat::kBf16:
      return {Type::bf16, Type::bf16, Type::f32};
    case NumberFormat::kInt8:
      return {Type::u8, Type::s8, Type::s32};
  }
  throw std::invalid_argument("unknown number format");
}

/// The products of all blocks of one shape. `depth` is the number of inputs with their padding.
class BlockProducts {
 public:
  /// One number of rows.
  struct Product {
    size_t rows;
    dnnl::memory::desc x, y, scratchpad;
    dnnl::matmul primitive;
  };

  BlockProducts(NumberFormat format, size_t outputs, size_t depth) {
    ThreadContext::of_this_thread();  // primitives are made for its number of threads
    const Types types = types_of(format);
    // The library chooses the layout of weights once, for the most rows.
    weights_ = {{dim(depth), dim(outputs)}, types.weights, dnnl::memory::format_tag::any};
    for (size_t i = std::size(kBlockRows); i-- > 0;) {
      const size_t rows = kBlockRows[i];
      const auto plain = dnnl::memory::format_tag::ab;
      const dnnl::memory::desc x({dim(rows), dim(depth)}, types.x, plain);
      const dnnl::memory::desc y({dim(rows), dim(outputs)}, types.y, plain);
      dnnl::primitive_attr attributes;
      attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
      const dnnl::matmul::primitive_desc chosen({x, weights_, y}, attributes, cpu());
      weights_ = chosen.weights_desc();
      products_.push_back({rows, x, y, chosen.scratchpad_desc(), dnnl::matmul(chosen)});
    }
    std::ranges::reverse(products_);
  }

  const dnnl::memory::desc& weights() const { return weights_; }

  /// The one for `rows`, at most kMostBlockRows, or a few more.
  const Product& for_rows(size_t rows) const {
    return *std::ranges::lower_bound(products_, rows, {}, &Product::rows);
  }

 private:
  dnnl::memory::desc weights_;
  std::vector<Product> products_;
};

/// Weights in blocks of kBlockOutputs outputs, each as the library likes it.
class OneDnnMatrix final : public PackedMatrix {
 public:
  struct Block {
    std::shared_ptr<const BlockProducts> products;
    dnnl::memory weights;
    size_t outputs;
  };

  size_t outputs() const override { return shape.outputs; }
  size_t inputs() const override { return shape.inputs; }

  MatrixShape shape;
  std::vector<Block> blocks;
  // Per output, kInt8 alone: value = (sum - zero_sum) · weight_scale · the row's scale.
  std::vector<int32_t> zero_sums;
  std::vector<float> weight_scales;
};

class OneDnnGemm final : public GemmBackend {
 public:
  explicit OneDnnGemm(NumberFormat format) : format_(format) {}

  std::string description() const override {
    const dnnl_version_t& version = *dnnl::version();
    return "onednn " + std::string(name_of(format_)) + " (oneDNN " + std::to_string(version.major) +
           "." + std::to_string(version.minor) + "." + std::to_string(version.patch) + ", " +
           std::string(name_of(usable_isa())) + " at most)";
  }

  NumberFormat format() const override { return format_; }

  size_t packed_bytes(size_t outputs, size_t inputs) const override {
    size_t bytes = 0;
    for (size_t first = 0; first < outputs; first += kBlockOutputs) {
      bytes += products_for(std::min(kBlockOutputs, outputs - first), inputs)->weights().get_size();
    }
    const bool scaled = format_ == NumberFormat::kInt8;
    return bytes + (scaled ? outputs * (sizeof(int32_t) + sizeof(float)) : 0);
  }

  std::unique_ptr<PackedMatrix> pack(ThreadPool& pool,
                                     std::span<const TensorView> stacked) const override {
    auto packed = std::make_unique<OneDnnMatrix>();
    packed->shape = stacked_shape(format_, stacked);
    const auto [outputs, inputs] = packed->shape;
    const std::vector<SourceRow> rows = stacked_rows(stacked);
    for (size_t first = 0; first < outputs; first += kBlockOutputs) {
      const size_t count = std::min(kBlockOutputs, outputs - first);
      auto products = products_for(count, inputs);
      dnnl::memory weights(products->weights(), cpu());
      packed->blocks.push_back({std::move(products), std::move(weights), count});
    }
    if (format_ == NumberFormat::kInt8) {
      packed->zero_sums.resize(outputs);
      packed->weight_scales.resize(outputs);
    }
    pool.parallel_for(packed->blocks.size(),
                      [&](size_t block, size_t) { pack_block(*packed, block, rows); });
    return packed;
  }

  std::unique_ptr<PackedMatrix> pack_gated(ThreadPool& pool, const TensorView& gate,
                                           const TensorView& up) const override {
    gated_shape(format_, gate, up);
    const TensorView stacked[] = {gate, up};
    return pack(pool, stacked);
  }

  void multiply(ThreadPool& pool, ConstActivations x, const PackedMatrix& w, size_t first_output,
                MutMatView y, Into into) const override {
    check_product(format_, x, w, first_output, y);
    if (y.rows == 0 || y.cols == 0) return;
    const auto& packed = packed_as<OneDnnMatrix>(w);
    const size_t end_output = first_output + y.cols;
    const size_t first_block = first_output / kBlockOutputs;
    const size_t row_blocks = ceil_div(y.rows, kMostBlockRows);
    const size_t blocks = ceil_div(end_output, kBlockOutputs) - first_block;
    pool.parallel_for(row_blocks * blocks, [&](size_t task, size_t) {
      // Neighbouring tasks share their weights, the larger operand, while those are in a cache.
      const size_t row = task % row_blocks * kMostBlockRows;
      const size_t rows = std::min(kMostBlockRows, y.rows - row);
      const size_t block = first_block + task / row_blocks;
      const size_t begin = std::max(first_output, block * kBlockOutputs);
      const size_t end = std::min(end_output, (block + 1) * kBlockOutputs);
      multiply_block(x.row_range(row, rows), packed, block, begin,
                     y.row_range(row, rows).col_range(begin - first_output, end - begin), into);
    });
  }

  size_t gated_scratch(size_t rows, size_t intermediate) const override {
    return rows * 2 * intermediate;
  }

  void multiply_gated(ThreadPool& pool, ConstActivations x, const PackedMatrix& w,
                      const GatedUnit& unit, Activations y,
                      std::span<float> scratch) const override {
    check_gated_product(format_, x, w, unit, y, scratch.size(), gated_scratch(y.rows, y.cols));
    const MutMatView gate_up(scratch.data(), y.rows, 2 * y.cols);
    multiply(pool, x, w, 0, gate_up, Into::kStore);
    pool.parallel_for(y.rows, [&](size_t row, size_t) {
      if (!unit.bias.empty()) add(gate_up.row(row), unit.bias);
      if (format_ == NumberFormat::kF32) {
        gate(unit.activation, gate_up.row(row), {reinterpret_cast<float*>(y.row(row)), y.cols});
        zero_padding(y, row);
        return;
      }
      ThreadContext& thread = ThreadContext::of_this_thread();
      const std::span values(reinterpret_cast<float*>(thread.memory(y.cols * sizeof(float))),
                             y.cols);
      gate(unit.activation, gate_up.row(row), values);
      write_row(values, y, row);
    });
  }

 private:
  /// Those for blocks of `outputs` outputs of matrices of `inputs` inputs, made at the first call.
  std::shared_ptr<const BlockProducts> products_for(size_t outputs, size_t inputs) const {
    const size_t depth = activation_stride(format_, inputs) / bytes_of(format_);
    const std::lock_guard lock(mutex_);
    std::shared_ptr<const BlockProducts>& products = products_[{outputs, depth}];
    try {
      if (!products) products = std::make_shared<BlockProducts>(format_, outputs, depth);
    } catch (const dnnl::error& error) {
      throw std::runtime_error("oneDNN cannot multiply " + std::string(name_of(format_)) +
                               " matrices of " + std::to_string(outputs) + " x " +
                               std::to_string(inputs) + ": " + error.what() +
                               "; choose the native backend");
    }
    return products;
  }

  void pack_block(OneDnnMatrix& packed, size_t index, std::span<const SourceRow> rows) const {
    const OneDnnMatrix::Block& block = packed.blocks[index];
    const size_t inputs = packed.shape.inputs;
    const size_t row_bytes = activation_stride(format_, inputs);
    const dnnl::memory plain({{dim(row_bytes / bytes_of(format_)), dim(block.outputs)},
                              types_of(format_).weights,
                              dnnl::memory::format_tag::ba},
                             cpu());
    auto* const bytes = static_cast<std::byte*>(plain.get_data_handle());
    std::memset(bytes, 0, block.outputs * row_bytes);
    std::vector<float> weights(inputs);
    for (size_t i = 0; i < block.outputs; ++i) {
      const size_t output = index * kBlockOutputs + i;
      const SourceRow source = rows[output];
      convert_to_f32(*source.tensor, source.row * inputs, inputs, weights.data());
      pack_output(packed, output, weights, bytes + i * row_bytes);
    }
    dnnl::stream& stream = ThreadContext::of_this_thread().stream();
    dnnl::memory to = block.weights;  // a reference to it
    dnnl::reorder(plain, to).execute(stream, {{DNNL_ARG_FROM, plain}, {DNNL_ARG_TO, to}});
    stream.wait();
  }

  void pack_output(OneDnnMatrix& packed, size_t output, std::span<const float> weights,
                   std::byte* out) const {
    switch (format_) {
      case NumberFormat::kF32:
        std::memcpy(out, weights.data(), weights.size_bytes());
        return;
      case NumberFormat::kBf16:
        std::ranges::transform(weights, reinterpret_cast<uint16_t*>(out),
                               [](float weight) { return bf16_from_f32(weight); });
        return;
      case NumberFormat::kInt8: {
        const QuantisedOutput quantised =
            quantise_weights(weights, {reinterpret_cast<int8_t*>(out), weights.size()});
        packed.zero_sums[output] = quantised.zero_sum;
        packed.weight_scales[output] = quantised.scale;
        return;
      }
    }
  }

  /// y = or += x times the outputs of block `index` from `first_output`, y.cols of them.
  void multiply_block(ConstActivations x, const OneDnnMatrix& packed, size_t index,
                      size_t first_output, MutMatView y, Into into) const {
    const OneDnnMatrix::Block& block = packed.blocks[index];
    const BlockProducts::Product& product = block.products->for_rows(x.rows);
    const size_t row_bytes = activation_stride(format_, x.cols);
    const bool copied = x.rows != product.rows || x.stride != row_bytes;
    const size_t sums_bytes = in_cache_lines(product.rows * block.outputs * sizeof(float));
    const size_t row_of_values = in_cache_lines(y.cols * sizeof(float));
    const size_t copy_bytes = copied ? product.rows * row_bytes : 0;
    ThreadContext& thread = ThreadContext::of_this_thread();
    std::byte* const sums =
        thread.memory(sums_bytes + row_of_values + copy_bytes + product.scratchpad.get_size());
    std::byte* const values = sums + sums_bytes;
    std::byte* const copy = values + row_of_values;
    if (copied) {
      for (size_t r = 0; r < x.rows; ++r) std::memcpy(copy + r * row_bytes, x.row(r), row_bytes);
      std::memset(copy + x.rows * row_bytes, 0, (product.rows - x.rows) * row_bytes);
    }
    run(thread, product, copied ? copy : x.data, block.weights, sums, copy + copy_bytes);
    const std::byte* const wanted = sums + (first_output - index * kBlockOutputs) * sizeof(float);
    for (size_t r = 0; r < y.rows; ++r) {
      finish_row(wanted + r * block.outputs * sizeof(float), packed, first_output,
                 x.scales == nullptr ? 1.0f : x.scales[r], y.row(r), into,
                 {reinterpret_cast<float*>(values), y.cols});
    }
  }

  static void run(ThreadContext& thread, const BlockProducts::Product& product, const std::byte* x,
                  const dnnl::memory& weights, std::byte* y, std::byte* scratchpad) {
    // The library takes operands that it only reads as not const.
    auto* const operand = const_cast<std::byte*>(x);
    product.primitive.execute(
        thread.stream(),
        {{DNNL_ARG_SRC, dnnl::memory(product.x, cpu(), operand)},
         {DNNL_ARG_WEIGHTS, weights},
         {DNNL_ARG_DST, dnnl::memory(product.y, cpu(), y)},
         {DNNL_ARG_SCRATCHPAD, dnnl::memory(product.scratchpad, cpu(), scratchpad)}});
    thread.stream().wait();
  }

  /// A row of sums, of floats or for kInt8 of int32_t, to y; `values` is memory for it.
  void finish_row(const std::byte* sums, const OneDnnMatrix& packed, size_t first_output,
                  float row_scale, std::span<float> y, Into into, std::span<float> values) const {
    const auto* floats = reinterpret_cast<const float*>(sums);
    if (format_ == NumberFormat::kInt8) {
      float* const out = into == Into::kStore ? y.data() : values.data();
      row_loops().dequantise(reinterpret_cast<const int32_t*>(sums),
                             packed.zero_sums.data() + first_output,
                             packed.weight_scales.data() + first_output, row_scale, y.size(), out);
      if (into == Into::kStore) return;
      floats = out;
    }
    if (into == Into::kAdd) {
      add(y, {floats, y.size()});
    } else {
      std::memcpy(y.data(), floats, y.size_bytes());
    }
  }

  NumberFormat format_;
  // A cache; what is in it does not change.
  mutable std::mutex mutex_;
  mutable std::map<std::pair<size_t, size_t>, std::shared_ptr<const BlockProducts>> products_;
};

/// Throws std::runtime_error unless both `isa` and the library have `needed`.
void require_isa(NumberFormat format, Isa isa, Isa needed) {
  // The library's values are sets of features.
  const auto bits = [](dnnl::cpu_isa value) { return static_cast<unsigned>(value); };
  const unsigned wanted = bits(library_isa(needed));
  const std::string advice = ", which onednn needs for " + std::string(name_of(format)) +
                             "; choose the native backend, or f32";
  if (isa < needed) {
    throw std::runtime_error("the CPU (or ESPALIER_ISA) offers " + std::string(name_of(isa)) +
                             ", not " + std::string(name_of(needed)) + advice);
  }
  cpu();  // caps the library first
  if ((bits(dnnl::get_effective_cpu_isa()) & wanted) != wanted) {
    throw std::runtime_error("oneDNN (or its DNNL_MAX_CPU_ISA) does not use " +
                             std::string(name_of(needed)) + advice);
  }
}

}  // namespace

std::unique_ptr<GemmBackend> make_onednn_gemm(NumberFormat format, Isa isa) {
  if (format == NumberFormat::kBf16) require_isa(format, isa, Isa::kAvx512);
  if (format == NumberFormat::kInt8) require_isa(format, isa, Isa::kAvx512Vnni);
  return std::make_unique<OneDnnGemm>(format);
}

}  // namespace espalier::engine
