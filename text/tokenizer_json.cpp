#include "text/tokenizer_json.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "text/tokenizer_components.h"

namespace espalier::text {
namespace {

/// Published files nest a Sequence once. The bound keeps a hostile file from deep recursion.
constexpr int kSequenceDepthMax = 8;

void flatten_into(const JsonField& field, std::string_view list_key, int depth,
                  std::vector<JsonField>& components) {
  if (field.string_at("type") != "Sequence") {
    components.push_back(field);
    return;
  }
  if (depth == kSequenceDepthMax) field.refuse("sequences are nested too deeply");
  for (const JsonField& item : field.at(list_key).items()) {
    flatten_into(item, list_key, depth + 1, components);
  }
}

std::string read_file(const std::filesystem::path& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    throw std::runtime_error(path.string() + ": is a folder, expected a tokenizer.json file");
  }
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream bytes;
  if (!stream.is_open() || !(bytes << stream.rdbuf())) {
    throw std::runtime_error(path.string() +
                             ": cannot be read; a model folder must have this file");
  }
  return std::move(bytes).str();
}

AddedToken read_added_token(const JsonField& field, const Normalizer& normalizer) {
  AddedToken token;
  token.content = field.string_at("content");
  token.id = field.at("id").as_token_id();
  token.strip_left = field.bool_or("lstrip", false);
  token.strip_right = field.bool_or("rstrip", false);
  token.normalized = field.bool_or("normalized", false);
  token.special = field.bool_or("special", false);
  set_pattern(token, normalizer);
  if (field.bool_or("single_word", false)) {
    field.refuse("single_word is not supported (token " + in_quotes(token.content) + ")");
  }
  return token;
}

/// Hugging Face's library ignores the ids in the file: a token that the vocabulary has keeps its
/// id, the others are numbered from the end of the vocabulary on. Where that differs, nobody can
/// tell which ids the model was trained with.
std::vector<AddedToken> read_added_tokens(const std::optional<JsonField>& field,
                                          const Normalizer& normalizer,
                                          const Vocabulary& vocabulary) {
  std::vector<AddedToken> tokens;
  if (!field) return tokens;
  std::set<std::string> contents, normalized_patterns;
  auto next_id = static_cast<uint32_t>(vocabulary.size());
  for (const JsonField& item : field->items()) {
    AddedToken token = read_added_token(item, normalizer);
    if (token.content.empty()) item.refuse("content is empty");
    if (!contents.insert(token.content).second) {
      item.refuse("the token " + in_quotes(token.content) + " is there twice");
    }
    if (token.normalized && !normalized_patterns.insert(token.pattern).second) {
      item.refuse("the token " + in_quotes(token.content) +
                  " is the same as another when normalized");
    }
    const auto entry = vocabulary.find(token.content);
    const uint32_t expected = entry != vocabulary.end() ? entry->second : next_id++;
    if (token.id != expected) {
      item.refuse("the token " + in_quotes(token.content) + " has id " + std::to_string(token.id) +
                  ", but Hugging Face's library would number it " + std::to_string(expected));
    }
    tokens.push_back(std::move(token));
  }
  return tokens;
}

void check_template_ids(const TokenizerSpec& spec, const JsonField& post_processor) {
  const size_t count = count_ids(spec);
  for (const auto* ids : {&spec.post_processor.prefix, &spec.post_processor.suffix}) {
    for (const uint32_t id : *ids) {
      if (id >= count) {
        post_processor.refuse("the template adds id " + std::to_string(id) +
                              ", which the vocabulary lacks");
      }
    }
  }
}

}  // namespace

std::vector<JsonField> flatten_sequence(const JsonField& field, std::string_view list_key) {
  std::vector<JsonField> components;
  flatten_into(field, list_key, 0, components);
  return components;
}

TokenizerSpec parse_tokenizer_json(std::string_view bytes, const std::string& name) {
  nlohmann::json document;
  try {
    document = nlohmann::json::parse(bytes);
  } catch (const nlohmann::json::exception& error) {
    throw std::runtime_error(name + ": is not valid JSON: " + error.what());
  }
  const JsonField root(document, name);
  if (const auto version = root.find("version"); version && version->as_string() != "1.0") {
    version->refuse("expected \"1.0\"");
  }
  TokenizerSpec spec;
  bool byte_level = false;
  if (const auto pre_tokenizer = root.find("pre_tokenizer")) {
    auto read = read_pre_tokenizer(*pre_tokenizer);
    spec.pre_tokenizer = std::move(read.pre_tokenizer);
    byte_level = read.byte_level;
  }
  spec.model = read_bpe(root.at("model"), byte_level);
  if (const auto normalizer = root.find("normalizer"))
    spec.normalizer = read_normalizer(*normalizer);
  if (const auto decoder = root.find("decoder"); decoder && !byte_level) {
    spec.decoder = read_decoder(*decoder);
  }
  spec.added_tokens =
      read_added_tokens(root.find("added_tokens"), spec.normalizer, spec.model.vocabulary);
  if (const auto post_processor = root.find("post_processor")) {
    spec.post_processor = read_post_processor(*post_processor);
    check_template_ids(spec, *post_processor);
  }
  return spec;
}

TokenizerSpec read_tokenizer_json(const std::filesystem::path& path) {
  return parse_tokenizer_json(read_file(path), path.string());
}

}  // namespace espalier::text
