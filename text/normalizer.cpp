#include "text/normalizer.h"

#include <algorithm>
#include <utility>

#include "text/utf8.h"

namespace espalier::text {
namespace {

template <typename... Visitors>
struct Overloaded : Visitors... {
  using Visitors::operator()...;
};
template <typename... Visitors>
Overloaded(Visitors...) -> Overloaded<Visitors...>;

size_t first_character_bytes(std::string_view text) { return decode_utf8(text, 0).length; }

/// What a step gets in place of an alignment if nobody asks for it.
struct NoAlignment {
  void append_same(size_t) {}
  void append_changed(size_t, size_t) {}
};

template <typename Align>
std::string_view prepend(const PrependNormalizer& step, std::string_view text, std::string& out,
                         Align& alignment) {
  if (text.empty() || step.content.empty()) {
    alignment.append_same(text.size());
    return text;
  }
  out.assign(step.content).append(text);
  // What is put in front belongs to the first character.
  const size_t first = first_character_bytes(text);
  alignment.append_changed(step.content.size() + first, first);
  alignment.append_same(text.size() - first);
  return out;
}

template <typename Align>
std::string_view replace(const ReplaceNormalizer& step, std::string_view text, std::string& out,
                         Align& alignment) {
  size_t found = text.find(step.pattern);
  if (found == text.npos) {
    alignment.append_same(text.size());
    return text;
  }
  out.clear();
  out.reserve(text.size() + text.size() / 4);
  size_t at = 0;
  for (; found != text.npos; found = text.find(step.pattern, at)) {
    out.append(text.substr(at, found - at)).append(step.content);
    alignment.append_same(found - at);
    alignment.append_changed(step.content.size(), step.pattern.size());
    at = found + step.pattern.size();
  }
  out.append(text.substr(at));
  alignment.append_same(text.size() - at);
  return out;
}

/// Whether a step treats every character by itself, but for what it puts before the first one.
bool is_characterwise(const Normalizer::Step& step) {
  const auto* const replaced = std::get_if<ReplaceNormalizer>(&step);
  if (replaced != nullptr)
    return first_character_bytes(replaced->pattern) == replaced->pattern.size();
  return std::holds_alternative<PrependNormalizer>(step);
}

}  // namespace

std::string_view Normalizer::normalize(std::string_view text, std::string& buffer) const {
  NoAlignment none;
  std::string made;
  for (const Step& step : steps_) {
    const std::string_view result = std::visit(
        Overloaded{
            [&](const UnicodeNormalizer& nfc) { return nfc.normalize(text, made); },
            [&](const PrependNormalizer& prepended) {
              return prepend(prepended, text, made, none);
            },
            [&](const ReplaceNormalizer& replaced) { return replace(replaced, text, made, none); }},
        step);
    if (result.data() != made.data()) continue;  // as it was
    std::swap(made, buffer);
    text = buffer;
  }
  return text;
}

std::string_view Normalizer::normalize(std::string_view text, std::string& buffer,
                                       std::vector<Alignment>& alignments) const {
  alignments.clear();
  std::string made;
  for (const Step& step : steps_) {
    Alignment& alignment = alignments.emplace_back();
    const std::string_view result = std::visit(
        Overloaded{
            [&](const UnicodeNormalizer& nfc) { return nfc.normalize(text, made, alignment); },
            [&](const PrependNormalizer& prepended) {
              return prepend(prepended, text, made, alignment);
            },
            [&](const ReplaceNormalizer& replaced) {
              return replace(replaced, text, made, alignment);
            }},
        step);
    if (result.data() != made.data()) continue;
    std::swap(made, buffer);
    text = buffer;
  }
  return text;
}

size_t Normalizer::settled_bytes(std::string_view text) const {
  if (steps_.empty()) return text.size();
  // What follows NFC must be settled wherever NFC is.
  if (!std::all_of(steps_.begin() + 1, steps_.end(), is_characterwise)) return 0;
  const auto* const nfc = std::get_if<UnicodeNormalizer>(&steps_.front());
  if (nfc != nullptr) return nfc->settled_bytes(text);
  return is_characterwise(steps_.front()) ? text.size() : 0;
}

bool Normalizer::goes_on() const {
  return steps_.empty() ||
         (steps_.size() == 1 && std::holds_alternative<UnicodeNormalizer>(steps_.front()));
}

}  // namespace espalier::text
