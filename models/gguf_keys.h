// The keys of a GGUF file's metadata that begin with its architecture's name ("qwen3.block_count"),
// and a record of which were asked for.
//
// All readers throw std::runtime_error naming file, key and reason.
//
// Thread contract: one thread's.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "engine/gguf_metadata.h"

namespace espalier::models {

class GgufKeys {
 public:
  GgufKeys(const engine::GgufMetadata& metadata, std::string_view architecture)
      : metadata_(metadata), prefix_(std::string(architecture) + ".") {}

  bool has(std::string_view key) { return metadata_.contains(full(key)); }
  /// An integer in [1, max]; the key must be there if there is no fallback.
  size_t size(std::string_view key, size_t max, std::optional<size_t> fallback = {});
  /// An integer in [0, max], 0 when absent.
  size_t count(std::string_view key, size_t max);
  /// A number in (0, max].
  double positive(std::string_view key, double max, double fallback);
  bool boolean(std::string_view key, bool fallback);
  std::string text(std::string_view key, std::string_view fallback);

  [[noreturn]] void fail(std::string_view key, const std::string& reason);

  /// Refuses every key of the architecture that was not asked for and is switched on: what nothing
  /// here implements.
  void refuse_others() const;

 private:
  const std::string& full(std::string_view key);

  const engine::GgufMetadata& metadata_;
  std::string prefix_;
  std::set<std::string, std::less<>> asked_;  // in full
};

}  // namespace espalier::models
