#include "text/pattern_translation.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <stdexcept>
#include <vector>

#include "text/unicode_additions.h"
#include "text/utf8.h"

namespace espalier::text {
namespace {

/// Unicode's White_Space, stable since 6.3, as the inside of a class; and its complement.
constexpr std::string_view kWhiteSpace =
    R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr std::string_view kNotWhiteSpace =
    R"(\x{0}-\x{8}\x{e}-\x{1f}\x{21}-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff})"
    R"(\x{200b}-\x{2027}\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{10ffff})";

/// Mn and Mc are missing because U+1171E moved from one to the other; C because additions leave Cn.
constexpr auto kCategories = std::to_array<std::string_view>(
    {"L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M",  "Me", "N",  "Nd", "Nl", "No", "P",  "Pc", "Pd",
     "Ps", "Pe", "Pi", "Pf", "Po", "S",  "Sm", "Sc", "Sk", "So", "Z",  "Zs", "Zl", "Zp"});

/// Pairs of ASCII letters that one character folds to (ß, ﬀ, ﬁ, ﬂ, ﬆ): Oniguruma matches such a
/// character when it ignores case, PCRE2 does not.
constexpr auto kFoldedPairs = std::to_array<std::string_view>({"ss", "ff", "fi", "fl", "st"});

bool is_ascii_punctuation(char c) {
  return static_cast<unsigned char>(c) < 0x80 && std::ispunct(static_cast<unsigned char>(c)) != 0;
}

std::string quote_character(char c) {
  return is_ascii_punctuation(c) ? std::string{'\\', c} : std::string{c};
}

/// The inside of a class that matches `category`.
std::string category_class(std::string_view category) {
  std::string out = "\\p{" + std::string(category) + "}";
  for (const CategoryRange& range : kCategoriesSinceUnicode14) {
    if (!range.category.starts_with(category)) continue;
    char text[32];
    std::snprintf(text, sizeof text, "\\x{%X}-\\x{%X}", static_cast<unsigned>(range.first),
                  static_cast<unsigned>(range.last));
    out += text;
  }
  return out;
}

class Translator {
 public:
  explicit Translator(std::string_view pattern) : pattern_(pattern) {}

  std::string translate() {
    while (!at_end()) translate_item();
    if (!groups_.empty()) refuse("a group is not closed");
    return std::move(out_);
  }

 private:
  struct Group {
    bool lookaround;
    bool caseless_outside;
  };

  bool at_end() const { return at_ == pattern_.size(); }
  bool next_is(std::string_view text) const { return pattern_.substr(at_).starts_with(text); }
  char take() {
    if (at_end()) refuse("it ends too early");
    return pattern_[at_++];
  }
  bool take_if(std::string_view text) {
    if (!next_is(text)) return false;
    at_ += text.size();
    return true;
  }
  [[noreturn]] void refuse(const std::string& reason) const {
    throw std::invalid_argument("at byte " + std::to_string(at_) + " of the pattern: " + reason);
  }

  void translate_item() {
    const char c = pattern_[at_];
    switch (c) {
      case '(':
        return open_group();
      case ')':
        return close_group();
      case '|':
        ++at_;
        out_ += '|';
        return end_item(false);
      case '.':
        ++at_;
        out_ += '.';
        return end_item(true);
      case '[':
        return translate_class();
      case '\\':
        return translate_escape();
      case '?':
      case '*':
      case '+':
      case '{':
        return translate_quantifier();
      case '^':
      case '$':
        return refuse("anchors are not supported");
      default:
        ++at_;
        return put_literal(c);
    }
  }

  void end_item(bool repeatable) {
    repeatable_ = repeatable;
    last_letter_ = 0;
  }

  void put_literal(char c) {
    const bool is_ascii_letter =
        static_cast<unsigned char>(c) < 0x80 && std::isalpha(static_cast<unsigned char>(c)) != 0;
    const char folded =
        is_ascii_letter ? static_cast<char>(std::tolower(static_cast<unsigned char>(c))) : '\0';
    if (caseless_) {
      if (static_cast<unsigned char>(c) >= 0x80) refuse("(?i:) is supported on ASCII only");
      const std::string pair{last_letter_, folded};
      if (std::find(kFoldedPairs.begin(), kFoldedPairs.end(), pair) != kFoldedPairs.end()) {
        refuse("(?i:) on \"" + pair + "\", which one character can stand for, is not supported");
      }
    }
    out_ += quote_character(c);
    end_item(true);
    last_letter_ = folded;
  }

  void open_group() {
    static constexpr auto kLookarounds =
        std::to_array<std::string_view>({"(?=", "(?!", "(?<=", "(?<!"});
    const bool caseless_outside = caseless_;
    bool lookaround = false;
    std::string_view opening = "(";
    if (next_is("(?i:")) {
      opening = "(?i:";
      caseless_ = true;
    } else if (next_is("(?:") || next_is("(?>")) {
      opening = pattern_.substr(at_, 3);
    } else if (next_is("(?")) {
      const auto* found = std::find_if(kLookarounds.begin(), kLookarounds.end(),
                                       [&](std::string_view text) { return next_is(text); });
      if (found == kLookarounds.end()) refuse("this kind of group is not supported");
      opening = *found;
      lookaround = true;
    }
    at_ += opening.size();
    out_ += opening;
    groups_.push_back({lookaround, caseless_outside});
    end_item(false);
  }

  void close_group() {
    if (groups_.empty()) refuse("a group is closed that was not opened");
    const Group group = groups_.back();
    groups_.pop_back();
    caseless_ = group.caseless_outside;
    ++at_;
    out_ += ')';
    end_item(!group.lookaround);
  }

  /// `?`, `*`, `+` (greedy, lazy with `?`, possessive with `+`) and `{m}`, `{m,}`, `{m,n}` (greedy:
  /// what a `?` or `+` means after them differs).
  void translate_quantifier() {
    if (!repeatable_) refuse("there is nothing that this could repeat");
    const char c = take();
    out_ += c;
    if (c == '{') {
      const size_t end = pattern_.find('}', at_);
      const std::string_view bounds =
          pattern_.substr(at_, end == std::string_view::npos ? end : end - at_);
      const size_t first_digits = std::min(bounds.find_first_not_of("0123456789"), bounds.size());
      const std::string_view rest = bounds.substr(first_digits);
      const bool valid = end != std::string_view::npos && first_digits > 0 &&
                         (rest.empty() ||
                          (rest[0] == ',' && rest.find_first_not_of("0123456789", 1) == rest.npos));
      if (!valid) refuse("a repetition is {m}, {m,} or {m,n}");
      out_ += bounds;
      out_ += '}';
      at_ = end + 1;
    } else if (next_is("?") || next_is("+")) {
      out_ += take();
    }
    end_item(false);
  }

  /// An escape that stands for one character, the same in both syntaxes, inside a class and
  /// outside.
  std::string character_escape(char c) {
    static constexpr std::string_view kNamed = "nrtf";
    if (is_ascii_punctuation(c)) return quote_character(c);
    if (kNamed.find(c) != kNamed.npos) return std::string{'\\', c};
    if (c == 'x' && next_is("{")) {
      const size_t end = pattern_.find('}', at_);
      const size_t digits = end == std::string_view::npos ? 0 : end - at_ - 1;
      const std::string_view hex = pattern_.substr(at_ + 1, digits);
      if (digits == 0 || digits > 6 ||
          hex.find_first_not_of("0123456789abcdefABCDEF") != hex.npos) {
        refuse("expected \\x{…} with up to six hexadecimal digits");
      }
      if (caseless_ && std::stoul(std::string(hex), nullptr, 16) >= 0x80) {
        refuse("(?i:) is supported on ASCII only");
      }
      at_ = end + 1;
      return "\\x{" + std::string(hex) + "}";
    }
    refuse(std::string("the escape \\") + c + " is not supported");
  }

  /// The name in `\p{name}`, after the `p`.
  std::string take_category() {
    if (caseless_) refuse("a property inside (?i:) is not supported");
    const size_t end = pattern_.find('}', at_);
    if (!next_is("{") || end == std::string_view::npos) refuse("expected \\p{…}");
    std::string name(pattern_.substr(at_ + 1, end - at_ - 1));
    if (std::find(kCategories.begin(), kCategories.end(), name) == kCategories.end()) {
      refuse("the property \\p{" + name + "} is not supported");
    }
    at_ = end + 1;
    return name;
  }

  void translate_escape() {
    ++at_;
    const char c = take();
    const auto put_class = [&](bool negated, std::string_view inside) {
      out_ += negated ? "[^" : "[";
      out_ += inside;
      out_ += ']';
    };
    switch (c) {
      case 's':
      case 'S':
        put_class(c == 'S', kWhiteSpace);
        break;
      case 'd':
      case 'D':
        put_class(c == 'D', category_class("Nd"));
        break;
      case 'p':
      case 'P':
        put_class(c == 'P', category_class(take_category()));
        break;
      default:
        out_ += character_escape(c);
    }
    end_item(true);
  }

  /// One member of a class; `single` tells whether it is one character, which may begin a range.
  std::string class_member(bool& single) {
    single = false;
    const char c = take();
    if (c == '[') refuse("nested classes are not supported");
    if (c == '&' && next_is("&")) refuse("&& in a class is not supported");
    if (c != '\\') {
      --at_;
      const DecodedCharacter character = decode_utf8(pattern_, at_);
      if (caseless_ && character.code_point >= 0x80) refuse("(?i:) is supported on ASCII only");
      const std::string_view bytes = pattern_.substr(at_, character.length);
      at_ += character.length;
      single = true;
      return bytes.size() == 1 ? quote_character(c) : std::string(bytes);
    }
    switch (const char escaped = take()) {
      case 's':
        return std::string(kWhiteSpace);
      case 'S':
        return std::string(kNotWhiteSpace);
      case 'd':
        return category_class("Nd");
      case 'p':
        return category_class(take_category());
      default:
        single = true;
        return character_escape(escaped);
    }
  }

  void translate_class() {
    ++at_;
    out_ += '[';
    if (take_if("^")) out_ += '^';
    if (next_is("]")) refuse("an empty class, or one that starts with ], is not supported");
    while (!take_if("]")) {
      bool single = false;
      out_ += class_member(single);
      if (!next_is("-") || next_is("-]")) continue;
      if (!single) refuse("a range must start with a character");
      ++at_;
      out_ += '-' + class_member(single);
      if (!single) refuse("a range must end with a character");
      if (next_is("-") && !next_is("-]")) refuse("a range cannot be continued with another");
    }
    out_ += ']';
    end_item(true);
  }

  std::string_view pattern_;
  size_t at_ = 0;
  std::string out_;
  std::vector<Group> groups_;
  bool caseless_ = false;
  bool repeatable_ = false;  // whether a quantifier may follow
  char last_letter_ = 0;     // the literal just before, in lower case, if it was an ASCII letter
};

}  // namespace

std::string translate_oniguruma_pattern(std::string_view pattern) {
  if (!is_valid_utf8(pattern)) throw std::invalid_argument("the pattern is not valid UTF-8");
  return Translator(pattern).translate();
}

std::string quote_pattern(std::string_view literal) {
  std::string out;
  for (const char c : literal) out += quote_character(c);
  return out;
}

}  // namespace espalier::text
