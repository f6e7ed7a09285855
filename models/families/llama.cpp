// Llama 1 to 3 (Touvron et al. 2023, "LLaMA"; Grattafiori et al. 2024, "The Llama 3 Herd of
// Models"): the plain decoder, with biases where the config says so.
#include "models/families/family.h"

namespace espalier::models {

constinit const Family kLlama = {.model_type = "llama",
                                 .class_prefix = "Llama",
                                 .qk_norm = false,
                                 .qkv_bias = false,
                                 .default_head_dim = 0,
                                 .default_kv_heads = 0,
                                 .read = [](const JsonObject& object, ModelConfig& config) {
                                   read_attention_bias(object, config);
                                   config.mlp_bias = object.boolean("mlp_bias", false);
                                   read_window(object, 0, config);
                                 }};

}  // namespace espalier::models
