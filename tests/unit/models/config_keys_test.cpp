// The rule for keys that nothing reads, on single keys and on what published models carry.
#include "models/config_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/unit/models/tiny_model.h"

namespace espalier::models {
namespace {

using test::error_of;
using test::TemporaryFolder;
using test::TinyModel;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string error_of_config(const std::string& json) {
  const TemporaryFolder folder;
  folder.write("config.json", json);
  return error_of([&] { read_model_config(folder.path()); });
}

std::string error_with(const std::string& key, const std::string& json) {
  TinyModel model;
  model.config[key] = json;
  return error_of_config(model.config_json());
}

TEST(ConfigKeys, SwitchedOffKeysPass) {
  for (const char* key :
       {"is_encoder_decoder", "add_cross_attention", "use_bidirectional_attention",
        "is_bidirectional", "num_experts", "num_local_experts", "quantization_config",
        "compression_config", "use_qk_norm", "qk_layernorm", "alibi", "rope_interleaved",
        "attn_logit_softcapping", "pruned_heads", "auto_map", "new_attention_trick"}) {
    for (const char* off : {"null", "false", "0", "\"\"", "\"none\"", "[]", "{}"}) {
      EXPECT_EQ(error_with(key, off), "no error") << key << " " << off;
    }
    for (const char* on : {"true", "1", "0.5", "\"yes\"", "[1]", R"({"a": 1})"}) {
      EXPECT_THAT(error_with(key, on), HasSubstr("config.json: " + std::string(key) + ": "));
    }
  }
}

TEST(ConfigKeys, FactorsPassWhereTheyChangeNothing) {
  for (const char* key : {"partial_rotary_factor", "rotary_pct", "logit_scale", "scale_emb",
                          "residual_multiplier", "embedding_multiplier"}) {
    for (const char* neutral : {"null", "1", "1.0"}) {
      EXPECT_EQ(error_with(key, neutral), "no error") << key << " " << neutral;
    }
    // Zero is a factor as well.
    for (const char* other : {"0", "0.5", "12", "false", "\"1\"", "[]"}) {
      EXPECT_THAT(error_with(key, other), HasSubstr(std::string(key) + ": ")) << other;
    }
  }
  for (const char* key : {"is_causal", "causal"}) {
    EXPECT_EQ(error_with(key, "true"), "no error");
    EXPECT_EQ(error_with(key, "null"), "no error");
    EXPECT_THAT(error_with(key, "false"), HasSubstr("bidirectional attention is not supported"));
    EXPECT_THAT(error_with(key, "0"), HasSubstr("bidirectional attention is not supported"));
  }
}

TEST(ConfigKeys, UnknownKeysAreRefusedWhenTheirNameSoundsLikeThePass) {
  for (const char* key :
       {"attn_temperature_tuning", "rope_local_base_freq", "use_post_norm", "layer_scale",
        "no_rope_layers", "value_residual", "mask_type", "num_attention_groups_per_layer",
        "mlp_type", "gate_bias_init", "kv_lora_rank", "conv_kernel"}) {
    EXPECT_THAT(error_with(key, "3"), AllOf(HasSubstr(key), HasSubstr("config.json: "))) << key;
  }
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id", "task_specific_params",
                          "finetuning_task", "license", "my_company_note", "max_seq_length",
                          "base_model", "repetition_penalty", "prefix", "seed"}) {
    EXPECT_EQ(error_with(key, "3"), "no error") << key;
  }
}

TEST(ConfigKeys, RemoteCodeIsRefusedSayingWhy) {
  EXPECT_THAT(error_with("auto_map", R"({"AutoModel": "modeling_qwen.Qwen2Model"})"),
              AllOf(HasSubstr("auto_map: models with code of their own (trust_remote_code)"),
                    HasSubstr("bidirectional")));
}

// config.json of published models, key by key; some sizes are shortened, no key is left out.

constexpr char kQwen25[] = R"({"architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0,
  "bos_token_id": 151643, "eos_token_id": 151645, "hidden_act": "silu", "hidden_size": 896,
  "initializer_range": 0.02, "intermediate_size": 4864, "max_position_embeddings": 32768,
  "max_window_layers": 21, "model_type": "qwen2", "num_attention_heads": 14,
  "num_hidden_layers": 24, "num_key_value_heads": 2, "rms_norm_eps": 1e-06,
  "rope_theta": 1000000.0, "sliding_window": 32768, "tie_word_embeddings": true,
  "torch_dtype": "bfloat16", "transformers_version": "4.43.1", "use_cache": true,
  "use_sliding_window": false, "vocab_size": 151936})";

constexpr char kLlama32[] = R"({"architectures": ["LlamaForCausalLM"], "attention_bias": false,
  "attention_dropout": 0.0, "bos_token_id": 128000, "eos_token_id": [128001, 128008, 128009],
  "head_dim": 64, "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02,
  "intermediate_size": 8192, "max_position_embeddings": 131072, "mlp_bias": false,
  "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 16,
  "num_key_value_heads": 8, "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling":
  {"factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
  "original_max_position_embeddings": 8192, "rope_type": "llama3"}, "rope_theta": 500000.0,
  "tie_word_embeddings": true, "torch_dtype": "bfloat16", "transformers_version": "4.45.0.dev0",
  "use_cache": true, "vocab_size": 128256})";

constexpr char kLlama2[] = R"({"_name_or_path": "meta-llama/Llama-2-7b-hf",
  "architectures": ["LlamaForCausalLM"], "bos_token_id": 1, "eos_token_id": 2,
  "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02,
  "intermediate_size": 11008, "max_position_embeddings": 4096, "model_type": "llama",
  "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32,
  "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": null, "tie_word_embeddings": false,
  "torch_dtype": "float16", "transformers_version": "4.31.0.dev0", "use_cache": true,
  "vocab_size": 32000})";

constexpr char kE5Mistral[] = R"({"_name_or_path": "mistralai/Mistral-7B-v0.1",
  "architectures": ["MistralModel"], "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu",
  "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 14336,
  "max_position_embeddings": 32768, "model_type": "mistral", "num_attention_heads": 32,
  "num_hidden_layers": 32, "num_key_value_heads": 8, "pad_token_id": 2, "rms_norm_eps": 1e-05,
  "rope_theta": 10000.0, "sliding_window": 4096, "tie_word_embeddings": false,
  "torch_dtype": "float16", "transformers_version": "4.34.0", "use_cache": false,
  "vocab_size": 32000})";

constexpr char kQwen3SeqCls[] = R"({"architectures": ["Qwen3ForSequenceClassification"],
  "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 151643,
  "classifier_from_token": ["no", "yes"], "eos_token_id": 151645, "head_dim": 128,
  "hidden_act": "silu", "hidden_size": 1024, "id2label": {"0": "LABEL_0"},
  "initializer_range": 0.02, "intermediate_size": 3072, "is_original_qwen3_reranker": false,
  "label2id": {"LABEL_0": 0}, "max_position_embeddings": 40960, "max_window_layers": 28,
  "model_type": "qwen3", "num_attention_heads": 16, "num_hidden_layers": 28, "num_labels": 1,
  "num_key_value_heads": 8, "pad_token_id": 151643, "rms_norm_eps": 1e-06, "rope_scaling": null,
  "rope_theta": 1000000, "sentence_transformers": {"activation_fn": "torch.nn.Sigmoid",
  "version": "5.0.0"}, "sliding_window": null, "tie_word_embeddings": true,
  "torch_dtype": "bfloat16", "transformers_version": "4.52.4", "use_cache": true,
  "use_sliding_window": false, "vocab_size": 151669})";

constexpr char kNewerQwen3[] = R"({"architectures": ["Qwen3Model"], "attention_bias": false,
  "attention_dropout": 0.0, "bos_token_id": null, "dtype": "bfloat16", "eos_token_id": 151643,
  "head_dim": 128, "hidden_act": "silu", "hidden_size": 1024, "initializer_range": 0.02,
  "intermediate_size": 3072, "layer_types": ["full_attention", "full_attention"],
  "max_position_embeddings": 32768, "max_window_layers": 28, "model_type": "qwen3",
  "num_attention_heads": 16, "num_hidden_layers": 2, "num_key_value_heads": 8,
  "pad_token_id": 151643, "rms_norm_eps": 1e-06, "rope_parameters": {"rope_theta": 1000000,
  "rope_type": "default"}, "sliding_window": null, "tie_word_embeddings": true,
  "transformers_version": "5.0.0", "use_cache": true, "use_sliding_window": false,
  "vocab_size": 151669})";

TEST(ConfigKeys, PublishedModelsPass) {
  for (const char* json : {kQwen25, kLlama32, kLlama2, kE5Mistral, kQwen3SeqCls, kNewerQwen3}) {
    EXPECT_EQ(error_of_config(json), "no error") << json;
  }
}

/// Everything that Hugging Face's base class once wrote into every config.json, with its defaults.
TEST(ConfigKeys, TheDefaultsOfEveryConfigPass) {
  TinyModel model;
  const std::pair<const char*, const char*> defaults[] = {
      {"add_cross_attention", "false"},
      {"bad_words_ids", "null"},
      {"begin_suppress_tokens", "null"},
      {"chunk_size_feed_forward", "0"},
      {"cross_attention_hidden_size", "null"},
      {"decoder_start_token_id", "null"},
      {"diversity_penalty", "0.0"},
      {"do_sample", "false"},
      {"early_stopping", "false"},
      {"encoder_no_repeat_ngram_size", "0"},
      {"exponential_decay_length_penalty", "null"},
      {"finetuning_task", "null"},
      {"forced_bos_token_id", "null"},
      {"is_decoder", "true"},
      {"is_encoder_decoder", "false"},
      {"length_penalty", "1.0"},
      {"max_length", "20"},
      {"min_length", "0"},
      {"no_repeat_ngram_size", "0"},
      {"num_beam_groups", "1"},
      {"num_beams", "1"},
      {"num_return_sequences", "1"},
      {"output_attentions", "true"},
      {"output_hidden_states", "true"},
      {"output_scores", "false"},
      {"prefix", "null"},
      {"problem_type", "null"},
      {"pruned_heads", "{}"},
      {"remove_invalid_values", "false"},
      {"repetition_penalty", "1.0"},
      {"return_dict", "true"},
      {"sep_token_id", "null"},
      {"suppress_tokens", "null"},
      {"task_specific_params", "null"},
      {"temperature", "1.0"},
      {"tf_legacy_loss", "false"},
      {"tie_encoder_decoder", "false"},
      {"tokenizer_class", "null"},
      {"top_k", "50"},
      {"top_p", "1.0"},
      {"torchscript", "false"},
      {"typical_p", "1.0"},
      {"use_bfloat16", "false"},
      {"_attn_implementation_autoset", "true"}};
  for (const auto& [key, json] : defaults) model.config[key] = json;
  EXPECT_EQ(error_of_config(model.config_json()), "no error");
}

struct RefusedModel {
  std::string name, changes;  // of kQwen25, before its other keys
  std::string reason;
};

class RefusedModels : public ::testing::TestWithParam<RefusedModel> {};

TEST_P(RefusedModels, SayWhichKeyAndWhy) {
  EXPECT_THAT(error_of_config("{" + GetParam().changes + "}"), HasSubstr(GetParam().reason));
}

// What their files say first, in this reader's order.
INSTANTIATE_TEST_SUITE_P(
    Published, RefusedModels,
    ::testing::Values(
        RefusedModel{"gte-Qwen2", R"("model_type": "qwen2", "is_causal": false, "auto_map":
                     {"AutoModel": "modeling_qwen.Qwen2Model"})",
                     "auto_map: models with code"},
        RefusedModel{"KaLM", R"("model_type": "qwen2", "is_causal": false)",
                     "is_causal: bidirectional attention"},
        RefusedModel{"NV-Embed", R"("model_type": "nvembed", "auto_map": {"AutoModel": "x.Y"})",
                     "model_type: \"nvembed\" is not supported"},
        RefusedModel{"bge-reranker-v2-gemma", R"("model_type": "gemma")",
                     "model_type: \"gemma\" is not supported"},
        RefusedModel{"pplx-embed", R"("model_type": "bidirectional_pplx_qwen3",
                     "use_bidirectional_attention": true)",
                     "is not supported; supported: llama"},
        RefusedModel{"voyage-4-nano", R"("model_type": "qwen3", "auto_map":
                     {"AutoModel": "modeling.Model"})",
                     "auto_map: models with code"},
        RefusedModel{"llama-nemotron", R"("model_type": "llama", "architectures":
                     ["LlamaBidirectionalModel"])",
                     "architectures: "},
        RefusedModel{"Mixtral", R"("model_type": "mixtral", "num_local_experts": 8)",
                     "model_type: \"mixtral\""},
        RefusedModel{"GPTQ", R"("model_type": "llama", "quantization_config": {"bits": 4})",
                     "quantization_config: quantised checkpoints"},
        RefusedModel{"T5", R"("model_type": "llama", "is_encoder_decoder": true)",
                     "is_encoder_decoder: encoder-decoder models"}),
    [](const auto& test) {
      std::string name = test.param.name;
      std::erase_if(name, [](char c) { return c == '-'; });
      return name;
    });

}  // namespace
}  // namespace espalier::models
