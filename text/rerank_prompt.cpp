#include "text/rerank_prompt.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "text/white_space.h"

namespace espalier::text {
namespace {

/// Texts of more bytes a token are rare: one that has so many for all the tokens that a prompt may
/// have is looked at twice.
constexpr size_t kPlausibleTokenBytes = 16;

/// Of a token in a message.
constexpr size_t kShownTokenBytes = 60;

constexpr EncodeOptions kTrusted{.add_special_tokens = false};
constexpr EncodeOptions kUntrusted{.add_special_tokens = false, .match_added_tokens = false};

bool is_place(const RerankPart& part) { return std::holds_alternative<RerankPlace>(part); }

bool is_document(const RerankPart& part) {
  const auto* const place = std::get_if<RerankPlace>(&part);
  return place != nullptr && place->field == RerankField::kDocument;
}

/// What a request sends, but for its document.
struct Fields {
  std::string_view instruction, query;
};

std::string fill(const RerankParts& parts, const Fields& fields) {
  std::string text;
  for (const RerankPart& part : parts) {
    if (const auto* const literal = std::get_if<std::string>(&part)) {
      text += *literal;
      continue;
    }
    const auto& place = std::get<RerankPlace>(part);
    const std::string_view field =
        place.field == RerankField::kQuery ? fields.query : fields.instruction;
    text += place.trimmed ? trim(field) : field;
  }
  return text;
}

void append(const std::vector<uint32_t>& more, std::vector<uint32_t>& ids) {
  ids.insert(ids.end(), more.begin(), more.end());
}

/// Of a template's text that spells a chat token, such as "<|im_start|>".
void check_chat_tokens(const Tokenizer& tokenizer, const std::string& name,
                       std::string_view literal) {
  constexpr std::string_view kBegin = "<|", kEnd = "|>";
  size_t rest = 0;  // what is behind the last one
  for (size_t end = literal.find(kEnd); end != std::string_view::npos;
       end = literal.find(kEnd, rest)) {
    const std::string_view before = literal.substr(rest, end - rest);
    rest = end + kEnd.size();
    const size_t begin = before.rfind(kBegin);
    if (begin == std::string_view::npos) continue;
    const std::string token = std::string(before.substr(begin)) + std::string(kEnd);
    if (token.find_first_of(" \n") != std::string::npos) continue;
    if (tokenizer.encode(token, kTrusted).size() != 1) {
      throw std::runtime_error("the tokenizer has no token " + token.substr(0, kShownTokenBytes) +
                               ", which the rerank template " + name +
                               " needs; this model cannot rerank");
    }
  }
}

/// Ids of a text, no more than `most` if it is so long that this is worth while. True: it was cut.
bool append_bounded(const Tokenizer& tokenizer, const std::string& text, size_t most,
                    std::vector<uint32_t>& ids) {
  const bool long_text = text.size() / kPlausibleTokenBytes > most;
  const Tokenizer::Encoded encoded =
      tokenizer.encode_up_to(text, long_text ? most : Tokenizer::kAllIds, kUntrusted);
  append(encoded.ids, ids);
  return encoded.cut;
}

}  // namespace

/// Takes the parts of a template and makes segments of them.
class RerankPrompt::Segments {
 public:
  Segments(const Tokenizer& tokenizer, const std::string& name)
      : tokenizer_(tokenizer), name_(name) {}

  void add(const RerankPart& part) {
    if (const auto* const cut = std::get_if<RerankCut>(&part)) {
      end_segment();
      end_literal();
      plain_ = cut->plain;
    } else if (is_place(part) || plain_) {
      mixed_.push_back(part);
    } else {
      add_literal(std::get<std::string>(part));
    }
  }

  std::vector<Segment> take() {
    end_segment();
    end_literal();
    return std::move(segments_);
  }

 private:
  /// Its added tokens end segments.
  void add_literal(const std::string& text) {
    check_chat_tokens(tokenizer_, name_, text);
    size_t at = 0;
    for (const TokenWithOffsets& token : tokenizer_.encode_with_offsets(text, kTrusted)) {
      if (!tokenizer_.is_added_token(token.id) || token.end <= at) continue;
      if (token.begin > at) mixed_.emplace_back(text.substr(at, token.begin - at));
      end_segment();
      literal_ += text.substr(token.begin, token.end - token.begin);
      at = token.end;
    }
    if (at < text.size()) mixed_.emplace_back(text.substr(at));
  }

  void end_segment() {
    if (std::ranges::any_of(mixed_, is_place)) {
      end_literal();
      segments_.push_back({{}, std::exchange(mixed_, {})});
    }
    for (const RerankPart& text : std::exchange(mixed_, {}))
      literal_ += std::get<std::string>(text);
  }

  void end_literal() {
    if (!literal_.empty()) {
      segments_.push_back({tokenizer_.encode(literal_, plain_ ? kUntrusted : kTrusted), {}});
    }
    literal_.clear();
  }

  const Tokenizer& tokenizer_;
  const std::string& name_;
  std::vector<Segment> segments_;
  std::string literal_;  // without places, so far
  RerankParts mixed_;    // the segment that is being collected: it may get a place yet
  bool plain_ = false;
};

RerankPrompt::RerankPrompt(const Tokenizer& tokenizer, const RerankTemplate& rerank)
    : tokenizer_(&tokenizer), name_(rerank.name) {
  check_template(rerank);
  plain_ = lay_out(rerank.plain);
  if (rerank.instructed) instructed_ = lay_out(*rerank.instructed);
  for (const auto* const segments : {&plain_.before, &plain_.behind})
    for (const Segment& segment : *segments) fixed_tokens_ += segment.ids.size();
}

RerankPrompt::Layout RerankPrompt::lay_out(const RerankParts& parts) const {
  Segments collected(*tokenizer_, name_);
  for (const RerankPart& part : parts) collected.add(part);
  const std::vector<Segment> segments = collected.take();
  const auto own = std::ranges::find_if(segments, [](const Segment& segment) {
    return std::ranges::any_of(segment.parts, is_document);
  });
  const auto document = std::ranges::find_if(own->parts, is_document);
  Layout layout;
  layout.document = std::get<RerankPlace>(*document);
  layout.before_document.assign(own->parts.begin(), document);
  layout.behind_document.assign(document + 1, own->parts.end());
  layout.before.assign(segments.begin(), own);
  layout.behind.assign(own + 1, segments.end());
  return layout;
}

RerankPrompt::Shared RerankPrompt::prepare(std::optional<std::string_view> instruction,
                                           std::string_view query, size_t max_tokens) const {
  const Layout& layout = instruction ? instructed_.value() : plain_;
  const Fields fields{instruction.value_or(kDefaultRerankInstruction), query};
  Shared shared;
  shared.document_trimmed = layout.document.trimmed;
  bool cut = false;
  const auto append_segments = [&](const std::vector<Segment>& segments,
                                   std::vector<uint32_t>& ids) {
    for (const Segment& segment : segments) {
      append(segment.ids, ids);
      if (!segment.parts.empty() && !cut) {
        cut = append_bounded(*tokenizer_, fill(segment.parts, fields), max_tokens, ids);
      }
    }
  };
  append_segments(layout.before, shared.ids);
  const std::string beginning = fill(layout.before_document, fields);
  if (!cut && beginning.size() / kPlausibleTokenBytes > max_tokens) {
    std::vector<uint32_t> ids;
    cut = append_bounded(*tokenizer_, beginning, max_tokens, ids);
    if (cut) append(ids, shared.ids);
  }
  if (!cut) {
    Tokenizer::Beginning known = tokenizer_->encode_beginning(beginning);
    append(known.ids, shared.ids);
    shared.rest = std::move(known.rest);
    shared.after = fill(layout.behind_document, fields);
    if (!shared.after.empty()) {
      cut = append_bounded(*tokenizer_, shared.after, max_tokens, shared.after_ids);
    }
  }
  append_segments(layout.behind, shared.tail);
  shared.cut = cut;
  return shared;
}

RerankPrompt::Encoded RerankPrompt::encode(const Shared& shared, std::string_view document,
                                           size_t max_tokens, size_t document_tokens_max) const {
  const size_t behind = shared.after_ids.size() + shared.tail.size();
  const size_t room = max_tokens - std::min(max_tokens, behind);
  Encoded result{shared.ids, shared.cut || behind > max_tokens || shared.ids.size() > room};
  if (result.truncated) {
    result.ids.resize(std::min(room, result.ids.size()));
    append(shared.after_ids, result.ids);
  } else {
    if (shared.document_trimmed) document = trim(document);
    const size_t room_left = room - shared.ids.size();
    size_t wanted = room_left;
    if (document_tokens_max < room_left) {
      // The rest of the beginning and the document's first characters may share a token.
      const size_t rest = tokenizer_->encode(shared.rest, kUntrusted).size();
      wanted = std::min(room_left, rest + document_tokens_max);
    }
    std::string text = shared.rest + std::string(document);
    Tokenizer::Encoded own = tokenizer_->encode_up_to(text, wanted, kUntrusted);
    result.truncated = own.cut && wanted == room_left;
    if (!shared.after.empty()) {
      std::vector<uint32_t> whole;
      if (!own.cut) whole = tokenizer_->encode(text + shared.after, kUntrusted);
      const bool fits = !own.cut && whole.size() <= room_left + shared.after_ids.size();
      if (fits) own.ids = std::move(whole);
      if (!fits) append(shared.after_ids, own.ids);
    }
    append(own.ids, result.ids);
  }
  append(shared.tail, result.ids);
  if (result.ids.size() > max_tokens) result.ids.resize(max_tokens);  // behind a query too long
  return result;
}

}  // namespace espalier::text
