// Qwen2 and Qwen2.5 (Yang et al. 2024, "Qwen2 Technical Report"): queries, keys and values have
// biases, always.
#include "models/families/family.h"

namespace espalier::models {

constinit const Family kQwen2 = {.model_type = "qwen2",
                                 .class_prefix = "Qwen2",
                                 .qk_norm = false,
                                 .qkv_bias = true,
                                 .default_head_dim = 0,
                                 .default_kv_heads = 0,
                                 .read = [](const JsonObject& object, ModelConfig& config) {
                                   // Not attention_bias: published code does not look at it.
                                   refuse_bias(object, "mlp_bias");
                                   read_window_of_layers(object, config);
                                 }};

}  // namespace espalier::models
