#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

#include "text/byte_level.h"
#include "text/tokenizer_components.h"

namespace espalier::text {
namespace {

using nlohmann::json;

/// Options that change ids when they are set.
void refuse_unsupported(const JsonField& model) {
  if (const auto type = model.find("type"); type && type->as_string() != "BPE") {
    type->refuse("the model " + in_quotes(type->as_string()) + " is not supported (BPE is)");
  }
  if (const auto dropout = model.find("dropout")) {
    const bool off = dropout->value().is_number() && dropout->value().get<double>() == 0.0;
    if (!off) dropout->refuse("ids must not be random; expected null or 0");
  }
  for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const auto field = model.find(affix);
    if (field && !field->as_string().empty())
      field->refuse("is not supported; expected null or \"\"");
  }
}

Vocabulary read_vocabulary(const JsonField& field) {
  if (!field.value().is_object()) field.refuse("expected an object from entries to ids");
  Vocabulary vocabulary;
  vocabulary.reserve(field.value().size());
  std::unordered_set<uint32_t> ids;
  ids.reserve(field.value().size());
  for (const auto& [content, id] : field.value().items()) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > kTokenIdMax) {
      field.refuse("the id of " + in_quotes(content) + " is not an integer from 0 to " +
                   std::to_string(kTokenIdMax));
    }
    if (!ids.insert(id.get<uint32_t>()).second) {
      field.refuse("two entries have the id " + std::to_string(id.get<uint32_t>()) + ", one is " +
                   in_quotes(content));
    }
    vocabulary.emplace(content, id.get<uint32_t>());
  }
  return vocabulary;
}

void check_bytes(const JsonField& field, const Vocabulary& vocabulary) {
  for (int byte = 0; byte < 256; ++byte) {
    const char raw = static_cast<char>(byte);
    const std::string content = to_byte_level({&raw, 1});
    if (vocabulary.find(content) == vocabulary.end()) {
      field.refuse("no entry " + in_quotes(content) + " for byte " + std::to_string(byte) +
                   ", which the pre-tokenizer ByteLevel needs");
    }
  }
}

UnknownCharacters read_unknown(const JsonField& model, const Vocabulary& vocabulary) {
  UnknownCharacters unknown;
  unknown.byte_fallback = model.bool_or("byte_fallback", false);
  unknown.fuse_unk = model.bool_or("fuse_unk", false);
  const auto unk_token = model.find("unk_token");
  if (unk_token) {
    const auto entry = vocabulary.find(unk_token->as_string());
    if (entry != vocabulary.end() && !entry->first.empty()) unknown.unk_id = entry->second;
  }
  if (!spells_all_characters(vocabulary, unknown)) {
    (unk_token ? *unk_token : model)
        .refuse(
            "characters without an entry would vanish; expected an unk_token that is in "
            "model.vocab, or byte_fallback with entries <0x00> to <0xFF>; or the pre-tokenizer "
            "ByteLevel");
  }
  return unknown;
}

/// The two parts of a merge: `["a", "b"]`, or "a b" in older files.
std::pair<std::string_view, std::string_view> merge_parts(const json& merge, const JsonField& field,
                                                          size_t index) {
  if (merge.is_string()) {
    const std::string_view text = merge.get_ref<const std::string&>();
    const size_t space = text.find(' ');
    if (space != text.npos && text.find(' ', space + 1) == text.npos) {
      return {text.substr(0, space), text.substr(space + 1)};
    }
  } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
             merge[1].is_string()) {
    return {merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>()};
  }
  field.refuse("merge " + std::to_string(index) + " is neither [\"a\", \"b\"] nor \"a b\"");
}

std::vector<Merge> read_merges(const JsonField& field, const Vocabulary& vocabulary) {
  const json& list = field.value();
  if (!list.is_array()) field.refuse("expected an array");
  std::vector<Merge> merges;
  merges.reserve(list.size());
  std::string merged;
  for (size_t i = 0; i < list.size(); ++i) {
    // Files made from a merges.txt may have its first line, which is no merge and has no rank.
    if (list[i].is_string() && list[i].get_ref<const std::string&>().starts_with("#version"))
      continue;
    const auto [left, right] = merge_parts(list[i], field, i);
    const auto id_of = [&](std::string_view content) {
      const auto entry = vocabulary.find(content);
      if (entry == vocabulary.end()) {
        field.refuse("merge " + std::to_string(i) + " needs " + in_quotes(content) +
                     ", which model.vocab lacks");
      }
      return entry->second;
    };
    merged.assign(left).append(right);
    merges.push_back({id_of(left), id_of(right), id_of(merged)});
  }
  return merges;
}

}  // namespace

BpeSpec read_bpe(const JsonField& model, bool byte_level) {
  refuse_unsupported(model);
  BpeSpec spec;
  spec.byte_level = byte_level;
  spec.vocabulary = read_vocabulary(model.at("vocab"));
  if (byte_level) {
    check_bytes(model.at("vocab"), spec.vocabulary);  // then no character is unknown
  } else {
    spec.unknown = read_unknown(model, spec.vocabulary);
  }
  spec.merges = read_merges(model.at("merges"), spec.vocabulary);
  spec.ignore_merges = model.bool_or("ignore_merges", false);
  return spec;
}

}  // namespace espalier::text
