#include "text/unicode_normalizer.h"

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/stringpiece.h>
#include <unicode/uniset.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <stdexcept>
#include <vector>

#include "text/code_point_table.h"
#include "text/utf8.h"

namespace espalier::text {
namespace {

/// ICU sorts a run of combining marks by insertion, in quadratic time. Runs longer than this are
/// sorted before it sees them. Real text has runs of a few marks.
constexpr size_t kMarkRunMax = 32;

constexpr char32_t kFirstMark = 0x300;  // every character below is a starter

icu::StringPiece string_piece(std::string_view text) {
  return {text.data(), static_cast<int32_t>(text.size())};
}

/// The three characters of class 0 whose decomposition starts with a mark (Unicode 9.0,
/// DerivedNormalizationProps): U+0F73, U+0F75, U+0F81.
bool is_starter_made_of_marks(char32_t code_point) {
  return code_point == 0x0F73 || code_point == 0x0F75 || code_point == 0x0F81;
}

/// The characters that stay what they are, next to others of them: all that are younger than
/// Unicode 9.0, and the starters that NFC neither changes nor composes with what is before them.
const CodePointTable& inert_characters(const icu::UnicodeSet& unicode_9) {
  static const CodePointTable table = [&] {
    UErrorCode status = U_ZERO_ERROR;
    icu::UnicodeSet inert;
    inert.applyPattern(icu::UnicodeString::fromUTF8("[[:NFC_QC=Yes:]&[:ccc=0:]]"), status);
    if (U_FAILURE(status)) inert.clear();  // then ICU is asked about every text
    const std::unique_ptr<icu::UnicodeSet> younger(unicode_9.cloneAsThawed());
    inert.addAll(younger->complement());
    std::vector<uint8_t> values(kCodePointCount, 0);
    for (int32_t i = 0; i < inert.getRangeCount(); ++i) {
      std::fill(values.begin() + inert.getRangeStart(i), values.begin() + inert.getRangeEnd(i) + 1,
                1);
    }
    return CodePointTable(values);
  }();
  return table;
}

}  // namespace

struct UnicodeNormalizer::Icu {
  icu::UnicodeSet unicode_9;
  const icu::Normalizer2* nfc;  // a singleton of ICU's
  std::optional<icu::FilteredNormalizer2> nfc_9;
  const CodePointTable* inert;  // lives as long as the program

  Icu() {
    UErrorCode status = U_ZERO_ERROR;
    unicode_9.applyPattern(icu::UnicodeString::fromUTF8("[:age=9.0:]"), status);
    nfc = icu::Normalizer2::getNFCInstance(status);
    if (U_FAILURE(status)) {
      throw std::runtime_error(std::string("ICU's Unicode data cannot be loaded (") +
                               u_errorName(status) + "); is its library installed completely?");
    }
    unicode_9.freeze();  // only a frozen set may be read by many threads
    nfc_9.emplace(*nfc, unicode_9);
    inert = &inert_characters(unicode_9);
  }

  bool is_inert(std::string_view text) const;
  bool is_boundary(char32_t code_point) const {
    return nfc_9->hasBoundaryBefore(static_cast<UChar32>(code_point)) != 0;
  }
  /// As of Unicode 9.0.
  int combining_class(char32_t code_point) const {
    return nfc_9->getCombiningClass(static_cast<UChar32>(code_point));
  }
  size_t boundary_before(std::string_view text, size_t end) const;
  size_t boundary_behind(std::string_view text, size_t begin) const;
  void append_normalized(std::string_view chunk, std::string& out) const;
  bool has_long_mark_run(std::string_view text) const;
  std::string with_sorted_marks(std::string_view text) const;
};

UnicodeNormalizer::UnicodeNormalizer(size_t chunk_bytes)
    : icu_(std::make_unique<const Icu>()), chunk_bytes_(chunk_bytes) {}
UnicodeNormalizer::UnicodeNormalizer(UnicodeNormalizer&&) noexcept = default;
UnicodeNormalizer& UnicodeNormalizer::operator=(UnicodeNormalizer&&) noexcept = default;
UnicodeNormalizer::~UnicodeNormalizer() = default;

std::string_view UnicodeNormalizer::normalize(std::string_view text, std::string& buffer) const {
  if (icu_->is_inert(text)) return text;
  std::string sorted;
  if (icu_->has_long_mark_run(text)) {
    sorted = icu_->with_sorted_marks(text);
    text = sorted;
  } else if (text.size() <= chunk_bytes_) {
    UErrorCode status = U_ZERO_ERROR;
    if (icu_->nfc_9->isNormalizedUTF8(string_piece(text), status)) return text;
  }
  buffer.clear();
  while (text.size() > chunk_bytes_) {
    size_t cut = icu_->boundary_before(text, chunk_bytes_);
    // A chunk without a single boundary is no text that anyone wrote; it is cut at a character.
    for (cut = cut == 0 ? chunk_bytes_ : cut; cut > 1 && (text[cut] & 0xC0) == 0x80;) --cut;
    icu_->append_normalized(text.substr(0, cut), buffer);
    text.remove_prefix(cut);
  }
  icu_->append_normalized(text, buffer);
  return buffer;
}

std::string_view UnicodeNormalizer::normalize(std::string_view text, std::string& buffer,
                                              Alignment& alignment) const {
  if (icu_->is_inert(text)) {
    alignment.append_same(text.size());
    return text;
  }
  std::string stretch_buffer;
  buffer.clear();
  for (size_t begin = 0, end; begin < text.size(); begin = end) {
    end = icu_->boundary_behind(text, begin);
    const std::string_view stretch = text.substr(begin, end - begin);
    const std::string_view normalized = normalize(stretch, stretch_buffer);
    alignment.append_matched(stretch, normalized);
    buffer += normalized;
  }
  return buffer;
}

size_t UnicodeNormalizer::settled_bytes(std::string_view text) const {
  return text.empty() ? 0 : icu_->boundary_before(text, text.size() - 1);
}

bool UnicodeNormalizer::Icu::is_inert(std::string_view text) const {
  for (size_t at = 0; at < text.size();) {
    const DecodedCharacter character = decode_utf8(text, at);
    if ((*inert)[character.code_point] == 0) return false;
    at += character.length;
  }
  return true;
}

/// The largest position <= `end` (< text.size()) where `text` can be cut so that the two parts,
/// normalized apart and joined, are the whole normalized.
size_t UnicodeNormalizer::Icu::boundary_before(std::string_view text, size_t end) const {
  for (size_t at = end; at > 0; --at) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const bool continues = byte >= 0x80 && byte < 0xC0;
    if (!continues && is_boundary(decode_utf8(text, at).code_point)) return at;
  }
  return 0;
}

/// The first position behind `begin` (< text.size()) where `text` can be cut like that, or its end.
size_t UnicodeNormalizer::Icu::boundary_behind(std::string_view text, size_t begin) const {
  for (size_t at = begin + decode_utf8(text, begin).length; at < text.size();) {
    const DecodedCharacter character = decode_utf8(text, at);
    if (is_boundary(character.code_point)) return at;
    at += character.length;
  }
  return text.size();
}

void UnicodeNormalizer::Icu::append_normalized(std::string_view chunk, std::string& out) const {
  std::string normalized;
  icu::StringByteSink<std::string> sink(&normalized, static_cast<int32_t>(chunk.size()));
  UErrorCode status = U_ZERO_ERROR;
  nfc_9->normalizeUTF8(0, string_piece(chunk), sink, nullptr, status);
  // It fails only for want of memory. Other ids are better than none, and no exception is worth it.
  out.append(U_SUCCESS(status) ? std::string_view(normalized) : chunk);
}

bool UnicodeNormalizer::Icu::has_long_mark_run(std::string_view text) const {
  size_t run = 0;
  for (size_t at = 0; at < text.size();) {
    const DecodedCharacter character = decode_utf8(text, at);
    at += character.length;
    const bool mark =
        character.code_point >= kFirstMark && (combining_class(character.code_point) != 0 ||
                                               is_starter_made_of_marks(character.code_point));
    run = mark ? run + 1 : 0;
    if (run > kMarkRunMax) return true;
  }
  return false;
}

/// `text` with its runs of marks decomposed and in canonical order (Unicode 15, D109: a stable sort
/// by combining class). Canonically equivalent to `text`, so it has the same NFC.
std::string UnicodeNormalizer::Icu::with_sorted_marks(std::string_view text) const {
  struct Mark {
    int combining_class;
    char32_t code_point;
  };
  std::string out;
  out.reserve(text.size() + text.size() / 2);
  std::vector<Mark> run;
  const auto flush_run = [&] {
    std::stable_sort(run.begin(), run.end(), [](const Mark& a, const Mark& b) {
      return a.combining_class < b.combining_class;
    });
    for (const Mark& mark : run) append_utf8(out, mark.code_point);
    run.clear();
  };
  icu::UnicodeString decomposed;
  for (size_t at = 0; at < text.size();) {
    const DecodedCharacter character = decode_utf8(text, at);
    const char32_t code_point = character.code_point;
    const int own_class = code_point < kFirstMark ? 0 : combining_class(code_point);
    if (own_class == 0 && !is_starter_made_of_marks(code_point)) {
      flush_run();
      out.append(text.substr(at, character.length));
    } else if (nfc_9->getDecomposition(static_cast<UChar32>(code_point), decomposed)) {
      for (int32_t i = 0; i < decomposed.length(); i = decomposed.moveIndex32(i, 1)) {
        const auto part = static_cast<char32_t>(decomposed.char32At(i));
        run.push_back({combining_class(part), part});
      }
    } else {
      run.push_back({own_class, code_point});
    }
    at += character.length;
  }
  flush_run();
  return out;
}

}  // namespace espalier::text
