// adapter_config.json of a LoRA adapter as PEFT writes it, checked.
//
// Plain data. The readers throw std::runtime_error naming file, key and reason for whatever is
// missing, of the wrong type or range, or would change results and is not supported.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>

namespace espalier::models {

struct LoraConfig {
  size_t rank = 0;      // `r`
  double alpha = 0;     // `lora_alpha`
  bool rslora = false;  // scaled by 1/√rank instead of 1/rank
  // Module names, or their ends, with a value of their own.
  std::map<std::string, size_t> rank_pattern;
  std::map<std::string, double> alpha_pattern;

  /// Of the module of this name ("layers.0.self_attn.q_proj"): the rows of its A.
  size_t rank_of(const std::string& module) const;
  /// By which B·A is multiplied.
  double scale_of(const std::string& module) const;
};

LoraConfig read_lora_config(const std::filesystem::path& folder);

}  // namespace espalier::models
