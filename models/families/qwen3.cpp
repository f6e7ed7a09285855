// Qwen3 (Yang et al. 2025, "Qwen3 Technical Report"): each head of queries and keys is normed.
#include "models/families/family.h"

namespace espalier::models {

constinit const Family kQwen3 = {.model_type = "qwen3",
                                 .class_prefix = "Qwen3",
                                 .qk_norm = true,
                                 .qkv_bias = false,
                                 .default_head_dim = 128,
                                 .default_kv_heads = 0,
                                 .read = [](const JsonObject& object, ModelConfig& config) {
                                   read_attention_bias(object, config);
                                   refuse_bias(object, "mlp_bias");
                                   read_window_of_layers(object, config);
                                 }};

}  // namespace espalier::models
