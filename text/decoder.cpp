#include "text/decoder.h"

#include <charconv>
#include <cstdint>
#include <optional>

#include "text/utf8.h"

namespace espalier::text {
namespace {

using Pieces = std::vector<std::string>;

void replace_all(std::string& text, std::string_view pattern, std::string_view content) {
  size_t found = text.find(pattern);
  if (found == text.npos) return;
  std::string made;
  size_t at = 0;
  for (; found != text.npos; found = text.find(pattern, at)) {
    made.append(text, at, found - at).append(content);
    at = found + pattern.size();
  }
  text = made.append(text, at);
}

/// The byte that an entry such as `<0x0A>` stands for. Rust's from_str_radix takes a plus sign, so
/// `<0x+A>` is one, too.
std::optional<char> fallback_byte(std::string_view entry) {
  if (entry.size() != 6 || !entry.starts_with("<0x") || entry.back() != '>') return std::nullopt;
  std::string_view digits = entry.substr(3, 2);
  if (digits.front() == '+') digits.remove_prefix(1);
  uint8_t byte = 0;
  const char* const end = digits.data() + digits.size();
  const auto [parsed, error] = std::from_chars(digits.data(), end, byte, 16);
  if (error != std::errc() || parsed != end) return std::nullopt;
  return static_cast<char>(byte);
}

void apply(const ReplaceDecoder& step, Pieces& pieces) {
  for (std::string& piece : pieces) replace_all(piece, step.pattern, step.content);
}

void apply(const ByteFallbackDecoder&, Pieces& pieces) {
  Pieces made;
  made.reserve(pieces.size());
  std::string bytes;
  const auto flush_bytes = [&] {
    if (is_valid_utf8(bytes)) {
      if (!bytes.empty()) made.push_back(bytes);
    } else {
      for (size_t i = 0; i < bytes.size(); ++i)
        append_utf8(made.emplace_back(), kReplacementCharacter);
    }
    bytes.clear();
  };
  for (std::string& piece : pieces) {
    if (const auto byte = fallback_byte(piece)) {
      bytes.push_back(*byte);
    } else {
      flush_bytes();
      made.push_back(std::move(piece));
    }
  }
  flush_bytes();
  pieces = std::move(made);
}

void apply(const FuseDecoder&, Pieces& pieces) {
  std::string joined;
  for (const std::string& piece : pieces) joined += piece;
  pieces.assign(1, std::move(joined));
}

void apply(const StripDecoder& step, Pieces& pieces) {
  for (std::string& piece : pieces) {
    std::string_view rest = piece;
    for (size_t i = 0; i < step.start && rest.starts_with(step.content); ++i) {
      rest.remove_prefix(step.content.size());
    }
    for (size_t i = 0; i < step.stop && rest.ends_with(step.content); ++i) {
      rest.remove_suffix(step.content.size());
    }
    piece = std::string(rest);
  }
}

void apply(const MetaspaceDecoder& step, Pieces& pieces) {
  for (size_t i = 0; i < pieces.size(); ++i) {
    replace_all(pieces[i], step.mark, i == 0 && step.prepended ? "" : " ");
  }
}

}  // namespace

std::string Decoder::decode(std::vector<std::string> entries) const {
  std::string text;
  if (steps_.empty()) {
    for (size_t i = 0; i < entries.size(); ++i) text.append(i == 0 ? "" : " ").append(entries[i]);
    return text;
  }
  for (const Step& step : steps_) {
    std::visit([&](const auto& one) { apply(one, entries); }, step);
  }
  for (const std::string& piece : entries) text += piece;
  return text;
}

std::string Decoder::entry_bytes(std::string_view entry) const {
  std::string bytes(entry);
  for (const Step& step : steps_) {
    if (const auto* const replaced = std::get_if<ReplaceDecoder>(&step)) {
      replace_all(bytes, replaced->pattern, replaced->content);
    } else if (const auto* const metaspace = std::get_if<MetaspaceDecoder>(&step)) {
      replace_all(bytes, metaspace->mark, " ");
    } else if (std::holds_alternative<ByteFallbackDecoder>(step)) {
      if (const auto byte = fallback_byte(bytes)) return std::string(1, *byte);
    }
  }
  return bytes;
}

}  // namespace espalier::text
