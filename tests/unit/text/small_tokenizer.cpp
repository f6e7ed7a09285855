#include "tests/unit/text/small_tokenizer.h"

#include <nlohmann/json.hpp>

#include "text/byte_level.h"

namespace espalier::text {
namespace {

using nlohmann::json;

json small_document() {
  json document = json::parse(R"json({
    "version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
    "normalizer": {"type": "NFC"},
    "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
      {"type": "Split", "behavior": "Isolated", "invert": false, "pattern": {"Regex":
        "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}},
      {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false}]},
    "post_processor": null, "decoder": null,
    "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": "",
      "end_of_word_suffix": "", "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
      "vocab": {}, "merges": []}})json");
  for (int byte = 0; byte < 256; ++byte) {
    const char raw = static_cast<char>(byte);
    document["model"]["vocab"][to_byte_level({&raw, 1})] = byte;
  }
  return document;
}

}  // namespace

std::string small_tokenizer_json() { return small_document().dump(); }

std::string changed_tokenizer_json(const std::vector<Change>& changes) {
  json document = small_document();
  for (const auto& [pointer, value] : changes) {
    const json::json_pointer where(pointer);
    if (value == "remove") {
      json& parent = document[where.parent_pointer()];
      parent.is_array() ? parent.erase(std::stoul(where.back())) : (void)parent.erase(where.back());
    } else {
      document[where] = json::parse(value);
    }
  }
  return document.dump();
}

Tokenizer small_tokenizer(const std::vector<Change>& changes) {
  return Tokenizer::parse(changed_tokenizer_json(changes), "small.json");
}

std::vector<uint32_t> byte_ids(std::string_view text) {
  std::vector<uint32_t> ids;
  for (const char byte : text) ids.push_back(static_cast<unsigned char>(byte));
  return ids;
}

const Tokenizer& mini_tokenizer() {
  static const Tokenizer tokenizer = Tokenizer::load(ESPALIER_MINI_MODEL "/tokenizer.json");
  return tokenizer;
}

}  // namespace espalier::text
