#include "text/split_pattern.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <new>
#include <stdexcept>

#include "text/pattern_translation.h"
#include "text/utf8.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace espalier::text {
namespace {

constexpr uint32_t kHeapLimitKiB = 256 * 1024;
constexpr size_t kMatchLimit = 10'000'000;  // PCRE2's default, for short text

struct Deleter {
  void operator()(pcre2_compile_context* context) const { pcre2_compile_context_free(context); }
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};

template <typename T>
std::unique_ptr<T, Deleter> owned(T* object) {
  if (object == nullptr) throw std::bad_alloc();
  return std::unique_ptr<T, Deleter>(object);
}

/// The matches of one pattern in one text.
class Matcher {
 public:
  Matcher(const pcre2_code* code, std::string_view text, TextEnd end)
      : code_(code),
        text_(text),
        options_(PCRE2_NO_UTF_CHECK | (end == TextEnd::kOpen ? PCRE2_PARTIAL_HARD : 0)),
        data_(owned(pcre2_match_data_create(1, nullptr))),
        context_(owned(pcre2_match_context_create(nullptr))) {
    // Backtracking over a run costs a step for each character of it: the limit grows with the text.
    const size_t limit = std::min<size_t>(kMatchLimit + 16 * text.size(), UINT32_MAX);
    pcre2_set_match_limit(context_.get(), static_cast<uint32_t>(limit));
    pcre2_set_depth_limit(context_.get(), UINT32_MAX);  // the heap limit bounds the depth
    pcre2_set_heap_limit(context_.get(), kHeapLimitKiB);
  }

  /// Finds the first match that starts at `from` or later. If the text's end is open, and PCRE2
  /// looked at it on the way to the match, what follows may change it: then there is none.
  bool find(size_t from) {
    int rc = match(from, options_);
    // The compiled code has a small fixed stack; the interpreter uses the heap.
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT) rc = match(from, options_ | PCRE2_NO_JIT);
    // A partial match is an error by its number. An empty match at the end has looked at nothing.
    const bool open = (options_ & PCRE2_PARTIAL_HARD) != 0;
    return rc >= 0 && !(open && end() == text_.size());
  }
  size_t begin() const { return pcre2_get_ovector_pointer(data_.get())[0]; }
  size_t end() const { return pcre2_get_ovector_pointer(data_.get())[1]; }

 private:
  int match(size_t from, uint32_t options) {
    return pcre2_match(code_, reinterpret_cast<PCRE2_SPTR>(text_.data()), text_.size(), from,
                       options, data_.get(), context_.get());
  }

  const pcre2_code* code_;
  std::string_view text_;
  uint32_t options_;
  std::unique_ptr<pcre2_match_data, Deleter> data_;
  std::unique_ptr<pcre2_match_context, Deleter> context_;
};

}  // namespace

void SplitPattern::CodeDeleter::operator()(pcre2_real_code_8* code) const { pcre2_code_free(code); }

SplitPattern::SplitPattern(const std::string& pcre2_pattern) {
  const auto context = owned(pcre2_compile_context_create(nullptr));
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE offset = 0;
  code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pcre2_pattern.data()),
                            pcre2_pattern.size(), PCRE2_UTF | PCRE2_UCP, &error, &offset,
                            context.get()));
  if (code_ == nullptr) {
    std::array<PCRE2_UCHAR, 256> message{};
    pcre2_get_error_message(error, message.data(), message.size());
    throw std::invalid_argument(std::string("PCRE2 cannot compile the pattern: ") +
                                reinterpret_cast<const char*>(message.data()));
  }
  // Where compiled code is not allowed (hardened kernels) or not available, pcre2_match interprets.
  (void)pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD);
}

SplitPattern SplitPattern::regex(std::string_view pattern) {
  if (const auto scanner = WordScanner::for_pattern(pattern)) return SplitPattern(*scanner);
  return SplitPattern(translate_oniguruma_pattern(pattern));
}

SplitPattern SplitPattern::literal(std::string_view text) {
  return SplitPattern(quote_pattern(text));
}

bool SplitPattern::starts_afresh() const {
  if (scanner_) return true;
  uint32_t characters_behind = 0;
  pcre2_pattern_info(code_.get(), PCRE2_INFO_MAXLOOKBEHIND, &characters_behind);
  return characters_behind == 0;
}

size_t SplitPattern::split_from(std::string_view text, size_t from, TextEnd end, size_t pieces_max,
                                std::vector<std::string_view>& pieces,
                                std::vector<bool>* matches) const {
  if (scanner_) {
    from = scanner_->split_from(text, from, end, pieces_max, pieces);
    if (matches != nullptr) matches->resize(pieces.size(), true);  // there is nothing between them
    return from;
  }
  Matcher matcher(code_.get(), text, end);
  const size_t size_before = pieces.size();
  size_t piece_begin = from, search_from = from;
  bool matched_before = from > 0;
  const auto put_piece = [&](size_t piece_end, bool is_match) {
    if (piece_end > piece_begin || (matches != nullptr && is_match)) {
      pieces.push_back(text.substr(piece_begin, piece_end - piece_begin));
      if (matches != nullptr) matches->push_back(is_match);
    }
    piece_begin = piece_end;
  };
  while (search_from <= text.size() && matcher.find(search_from)) {
    if (pieces.size() - size_before >= pieces_max) return piece_begin;
    const size_t match_begin = matcher.begin(), match_end = matcher.end();
    if (match_begin == match_end && matched_before && match_begin == piece_begin) {
      // As rust-onig: an empty match right after a match does not count; go on one character later.
      search_from += search_from < text.size() ? decode_utf8(text, search_from).length : 1;
      continue;
    }
    put_piece(match_begin, false);
    put_piece(match_end, true);
    search_from = match_end;
    matched_before = true;
  }
  if (end == TextEnd::kFinal) put_piece(text.size(), false);
  return piece_begin;
}

}  // namespace espalier::text
