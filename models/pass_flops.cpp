#include "models/pass_flops.h"

namespace espalier::models {

PassFlops count_flops(const ModelConfig& config) {
  const auto hidden = static_cast<double>(config.hidden_size);
  const auto queries = static_cast<double>(config.query_heads * config.head_dim);
  const auto keys = static_cast<double>(config.kv_heads * config.head_dim);
  const auto layers = static_cast<double>(config.layers);
  const double keys_and_values = 2 * hidden * 2 * keys;
  const double rest =
      2 * hidden * (2 * queries + 3 * static_cast<double>(config.intermediate_size));
  // In the last layer only wanted rows are queries.
  return {layers * keys_and_values + (layers - 1) * rest, 4 * queries * (layers - 1), rest};
}

}  // namespace espalier::models
