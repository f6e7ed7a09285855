// config.json: whatever it says, read_model_config() either throws std::runtime_error or returns
// sizes that the rest of the program can multiply, and rotary frequencies that it can compute.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "engine/rope_frequencies.h"
#include "models/json_file.h"
#include "models/model_config.h"

namespace {

using espalier::models::ModelConfig;

void require(bool holds) {
  if (!holds) std::abort();
}

void check(const ModelConfig& config) {
  for (const size_t size : {config.layers, config.hidden_size, config.intermediate_size,
                            config.query_heads, config.kv_heads, config.head_dim, config.vocab_size,
                            config.max_positions, config.rope_positions}) {
    require(size >= 1 && size <= size_t{1} << 26U);
  }
  require(config.query_heads % config.kv_heads == 0 && config.head_dim % 2 == 0);
  require(config.max_positions <= config.rope_positions);
  require(config.sliding_window == 0 || config.max_positions <= config.sliding_window);
  const auto frequencies =
      espalier::engine::rope_frequencies(config.head_dim, config.rope_theta, config.rope_scaling);
  require(frequencies.size() == config.head_dim / 2);
  require(config.rope_scaling.attention_factor > 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const nlohmann::json root = espalier::models::parse_json(
        std::string(reinterpret_cast<const char*>(data), size), "fuzz");
    check(espalier::models::read_model_config(espalier::models::JsonObject(root, "fuzz")));
  } catch (const std::runtime_error&) {
    // Refused: the other allowed outcome.
  }
  return 0;
}
