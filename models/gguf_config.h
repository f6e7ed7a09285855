// What a GGUF file's metadata says of its model: the counterpart of config.json and
// sentence-transformers' files.
//
// The readers throw std::runtime_error naming file, key and reason for whatever is missing, out of
// range, or would change results and is not supported.
//
// Thread contract: pure functions.
#pragma once

#include <filesystem>

#include "engine/gguf_file.h"
#include "models/embedding_config.h"
#include "models/model_config.h"
#include "models/rerank_config.h"

namespace espalier::models {

/// Whether a model's path is that of a GGUF file rather than of a folder.
bool is_gguf(const std::filesystem::path& model);

ModelConfig read_gguf_config(const engine::GgufFile& file);

/// The pooling; a GGUF file has no prompts, and its embeddings are normalised.
EmbeddingConfig read_gguf_embedding_config(const engine::GgufFile& file);

/// The labels of `cls.output`.
RerankConfig read_gguf_rerank_config(const engine::GgufFile& file);

/// Whether the first of two rows of `cls.output` is the relevant one, as the labels ["yes", "no"]
/// of converted Qwen3-Rerankers say; Hugging Face's order is the other one.
bool relevant_label_is_first(const engine::GgufFile& file);

}  // namespace espalier::models
