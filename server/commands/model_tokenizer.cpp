#include "server/commands/model_tokenizer.h"

#include <string>
#include <string_view>
#include <utility>

#include "engine/gguf_file.h"
#include "models/gguf_config.h"
#include "text/ggml_vocabulary.h"

namespace espalier::commands {
namespace {

std::string key(std::string_view name) { return "tokenizer.ggml." + std::string(name); }

text::GgmlVocabulary read_vocabulary(const engine::GgufMetadata& metadata) {
  text::GgmlVocabulary vocabulary;
  vocabulary.model = metadata.text(key("model")).value_or("");
  vocabulary.pre = metadata.text(key("pre")).value_or("");
  auto tokens = metadata.texts(key("tokens"));
  if (!tokens) metadata.fail(key("tokens"), "is missing; the file has no tokenizer");
  vocabulary.tokens = std::move(*tokens);
  if (auto types = metadata.integers(key("token_type"))) vocabulary.token_type = std::move(*types);
  if (auto scores = metadata.floats(key("scores"))) vocabulary.scores = std::move(*scores);
  if (auto merges = metadata.texts(key("merges"))) vocabulary.merges = std::move(*merges);
  vocabulary.bos_token_id = metadata.unsigned_integer(key("bos_token_id"));
  vocabulary.eos_token_id = metadata.unsigned_integer(key("eos_token_id"));
  vocabulary.add_bos_token = metadata.boolean(key("add_bos_token"));
  vocabulary.add_eos_token = metadata.boolean(key("add_eos_token"));
  vocabulary.add_space_prefix = metadata.boolean(key("add_space_prefix"));
  for (const char* name : {"remove_extra_whitespaces", "add_sep_token", "normalizer.lowercase"}) {
    if (metadata.boolean(key(name)).value_or(false)) {
      metadata.fail(key(name), "is not supported");
    }
  }
  if (metadata.contains(key("precompiled_charsmap"))) {
    metadata.fail(key("precompiled_charsmap"), "is not supported");
  }
  return vocabulary;
}

}  // namespace

text::Tokenizer load_tokenizer(const std::filesystem::path& model) {
  if (!models::is_gguf(model)) return text::Tokenizer::load(model / "tokenizer.json");
  const auto file = engine::GgufFile::open(model);
  return text::tokenizer_of_ggml(read_vocabulary(file.metadata()), model.string());
}

}  // namespace espalier::commands
