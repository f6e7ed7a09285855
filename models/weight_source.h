// The weights of a model by name, wherever they come from: the interface that loading reads.
//
// Names are Hugging Face's without the `model.` prefix: "layers.0.self_attn.q_proj.weight".
//
// Thread contract: const calls from one thread at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "engine/safetensors.h"

namespace espalier::models {

/// A tensor that an architecture wants.
struct ExpectedTensor {
  std::string name;
  std::vector<size_t> shape;
};

/// A tensor to read, and what keeps its bytes in memory; nothing where they are in the source's
/// map, which lasts as long as the source.
struct WeightTensor {
  engine::TensorView view;
  std::shared_ptr<const void> owner;
};

class WeightSource {
 public:
  virtual ~WeightSource() = default;

  virtual bool contains(const std::string& name) const = 0;

  /// Throws std::runtime_error naming file, tensor, expected and found when it is missing, or of
  /// another shape or an unsupported dtype. Reads no weights.
  virtual void check(const ExpectedTensor& expected) const = 0;

  /// The same, and the tensor, which may have to be computed.
  virtual WeightTensor tensor(const ExpectedTensor& expected) const = 0;

  /// The names of all tensors, sorted.
  virtual std::vector<std::string> names() const = 0;

  /// "FILE: NAME", as the file spells it; the name must be there.
  virtual std::string describe(const std::string& name) const = 0;

  /// Bytes of the tensor in its file; the name must be there.
  virtual size_t stored_bytes(const std::string& name) const = 0;

  /// Lets the kernel drop the tensor's pages until it is read again.
  virtual void release_pages(const std::string& name) const = 0;
};

}  // namespace espalier::models
