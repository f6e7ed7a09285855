// Mistral (Jiang et al. 2023, "Mistral 7B"): the plain decoder with a sliding window in every
// layer, of 4096 tokens where the config does not mention it and none where it says null.
#include "models/families/family.h"

namespace espalier::models {

constinit const Family kMistral = {.model_type = "mistral",
                                   .class_prefix = "Mistral",
                                   .qk_norm = false,
                                   .qkv_bias = false,
                                   .default_head_dim = 0,
                                   .default_kv_heads = 8,
                                   .read = [](const JsonObject& object, ModelConfig& config) {
                                     refuse_bias(object, "attention_bias");
                                     refuse_bias(object, "mlp_bias");
                                     read_window(object, 4096, config);
                                   }};

}  // namespace espalier::models
