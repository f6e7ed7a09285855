#include "models/config_keys.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace espalier::models {
namespace {

using nlohmann::json;

/// Read here or by the families, or without effect.
constexpr std::string_view kHarmless[] = {
    // Read.
    "model_type", "architectures", "torch_dtype", "dtype", "num_hidden_layers", "hidden_size",
    "intermediate_size", "num_attention_heads", "num_key_value_heads", "head_dim", "vocab_size",
    "max_position_embeddings", "original_max_position_embeddings", "rms_norm_eps", "rope_theta",
    "rope_scaling", "rope_parameters", "tie_word_embeddings", "hidden_act", "attention_bias",
    "mlp_bias", "sliding_window", "use_sliding_window", "max_window_layers", "layer_types",
    // How attention is computed, not what.
    "_attn_implementation", "_attn_implementation_autoset", "_attn_implementation_internal",
    "attn_implementation", "_experts_implementation", "_flash_attn_2_enabled",
    "use_flash_attention_2", "use_flash_attn", "flash_attn", "use_sdpa", "pretraining_tp",
    "chunk_size_feed_forward", "use_mem_eff_path",
    // For training.
    "attention_dropout", "attn_pdrop", "attention_probs_dropout_prob", "hidden_dropout",
    "hidden_dropout_prob", "activation_dropout", "mlp_dropout", "resid_pdrop", "classifier_dropout",
    "initializer_range", "layerdrop", "router_aux_loss_coef", "output_router_logits",
    // What a call returns, and generation.
    "output_attentions", "output_hidden_states", "use_cache", "return_dict", "is_decoder",
    "num_beam_groups", "num_beams", "max_length", "min_length", "temperature", "top_k", "top_p",
    // Heads and pooling, which have readers of their own.
    "num_labels", "id2label", "label2id", "problem_type", "classifier_from_token",
    "is_original_qwen3_reranker", "sentence_transformers", "matryoshka_dimensions", "is_matryoshka",
    "truncate_dim", "pooling", "pooling_type", "pooling_mode",
    // Marks of tools.
    "unsloth_fixed", "unsloth_version", "transformers_version", "_name_or_path", "head_type"};

/// A key that changes results unless it is null or `neutral`, as JSON; where that is empty, unless
/// it is switched off.
struct ChangingKey {
  std::string_view key;
  std::string_view neutral;
  std::string_view reason;
};

constexpr std::string_view kBidirectional =
    "bidirectional attention is not supported: prefixes cannot be shared in it";
constexpr std::string_view kExperts = "mixtures of experts are not supported";
constexpr std::string_view kScaling = "scaling within the model is not supported";
constexpr std::string_view kCapping = "capped logits are not supported";
constexpr std::string_view kPartialRotary = "is not supported unless 1: heads are rotated whole";
constexpr std::string_view kNormOfHeads = "is not supported: the family's heads are not normed so";
constexpr std::string_view kEncoder = "encoder-decoder models are not supported";
constexpr std::string_view kParts = "models of several parts are not supported";

constexpr ChangingKey kChanging[] = {
    {"is_causal", "true", kBidirectional},
    {"causal", "true", kBidirectional},
    {"use_bidirectional_attention", "", kBidirectional},
    {"is_bidirectional", "", kBidirectional},
    {"bidirectional", "", kBidirectional},
    {"is_encoder_decoder", "", kEncoder},
    {"add_cross_attention", "", kEncoder},
    {"auto_map", "",
     "models with code of their own (trust_remote_code) are not supported: that code may compute "
     "something else than the family's decoder, bidirectional attention as a rule"},
    {"quantization_config", "",
     "quantised checkpoints are not supported; weights must be BF16, F16 or F32"},
    {"compression_config", "",
     "compressed checkpoints are not supported; weights must be BF16, F16 or F32"},
    {"num_experts", "", kExperts},
    {"num_local_experts", "", kExperts},
    {"n_routed_experts", "", kExperts},
    {"num_experts_per_tok", "", kExperts},
    {"moe_intermediate_size", "", kExperts},
    {"partial_rotary_factor", "1", kPartialRotary},
    {"rotary_pct", "1", kPartialRotary},
    {"rope_pct", "1", kPartialRotary},
    {"logit_scale", "1", kScaling},
    {"logits_scaling", "1", kScaling},
    {"residual_multiplier", "1", kScaling},
    {"embedding_multiplier", "1", kScaling},
    {"attention_multiplier", "", kScaling},
    {"query_pre_attn_scalar", "", kScaling},
    {"scale_emb", "1", kScaling},
    {"scale_depth", "", kScaling},
    {"attn_logit_softcapping", "", kCapping},
    {"final_logit_softcapping", "", kCapping},
    {"use_qk_norm", "", kNormOfHeads},
    {"qk_norm", "", kNormOfHeads},
    {"qk_layernorm", "", kNormOfHeads},
    {"no_rope_layers", "", "layers without rotary embedding are not supported"},
    {"no_rope_layer_interval", "", "layers without rotary embedding are not supported"},
    {"alibi", "", "position biases are not supported"},
    {"use_alibi", "", "position biases are not supported"},
    {"rope_interleaved", "", "pairs of rotary embedding must be half a head apart"},
    {"interleaved", "", "pairs of rotary embedding must be half a head apart"},
    {"position_embedding_type", R"("rope")", "positions must be embedded by rotation"},
    {"attention_type", R"("causal")", "attention must be causal and full"},
    {"hidden_activation", "", "name the activation in hidden_act"},
    {"pruned_heads", "", "pruned heads are not supported"},
    {"text_config", "", kParts},
    {"vision_config", "", kParts},
    {"audio_config", "", kParts},
};

/// Words of which a key that is in no list must have none.
constexpr std::string_view kPartsOfADecoder[] = {
    "act",           "activation", "alibi",      "attention",
    "attn",          "bias",       "biases",     "bidirectional",
    "capping",       "causal",     "conv",       "cross",
    "emb",           "embedding",  "embeddings", "expert",
    "experts",       "ffn",        "gate",       "gated",
    "head",          "heads",      "kernel",     "kv",
    "latent",        "layer",      "layernorm",  "layers",
    "linear",        "lora",       "mamba",      "mask",
    "mlp",           "moe",        "multiplier", "norm",
    "normalization", "position",   "positional", "positions",
    "proj",          "projection", "qk",         "qkv",
    "residual",      "rope",       "rotary",     "router",
    "scale",         "scaling",    "sliding",    "softcap",
    "softcapping",   "ssm",        "window",
};

bool is_off(const json& value) {
  if (value.is_structured()) return value.empty();
  return value.is_null() || value == false || value == 0 || value == "" || value == "none";
}

bool names_a_part(std::string_view key) {
  size_t begin = 0;
  while (begin < key.size()) {
    const size_t end = std::min(key.find('_', begin), key.size());
    const std::string_view word = key.substr(begin, end - begin);
    if (std::ranges::find(kPartsOfADecoder, word) != std::end(kPartsOfADecoder)) return true;
    begin = end + 1;
  }
  return false;
}

}  // namespace

void refuse_keys_that_change_results(const JsonObject& object, bool known_code) {
  for (const std::string& key : object.keys()) {
    if (known_code && key == "auto_map") continue;
    if (!object.has(key) || std::ranges::find(kHarmless, key) != std::end(kHarmless)) continue;
    const json& value = object.at(key);
    const auto* const changing = std::ranges::find(kChanging, key, &ChangingKey::key);
    if (changing != std::end(kChanging)) {
      const bool without_effect =
          changing->neutral.empty() ? is_off(value) : value == json::parse(changing->neutral);
      if (!without_effect) object.fail(key, changing->reason);
    } else if (!is_off(value) && names_a_part(key)) {
      object.fail(key,
                  "is not known, and by its name could change results; remove it from the file if "
                  "it does not");
    }
  }
}

}  // namespace espalier::models
