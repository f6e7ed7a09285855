#include "text/tokenizer.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "text/tokenizer_impl.h"
#include "text/tokenizer_json.h"
#include "text/utf8.h"

namespace espalier::text {
namespace {

/// The first window that is read of a text to be cut, and how much larger the next one is. English,
/// Chinese and source code have fewer than 5 bytes an id.
constexpr size_t kWindowBytesPerId = 8, kWindowBytesMin = 1024, kWindowGrowth = 4;

/// Where a text would be one word, but merges reach over no beginning of a run of marks, the text
/// is cut there.
PreTokenizer with_marked_words(PreTokenizer words, const BpeSpec& model) {
  const std::string mark = words.metaspace ? words.metaspace->mark : std::string(kSpaceMark);
  if (words.cuts_nothing() && words_start_at(model, mark)) {
    words.marked_words = MarkedWords{mark, false};
  }
  return words;
}

}  // namespace

Tokenizer::Impl::Impl(TokenizerSpec spec)
    : id_count(count_ids(spec)),
      normalizer(std::move(spec.normalizer)),
      pre_tokenizer(with_marked_words(std::move(spec.pre_tokenizer), spec.model)),
      model(std::move(spec.model)),
      post_processor(std::move(spec.post_processor)),
      added_tokens(std::move(spec.added_tokens)),
      entries(model.vocabulary(), added_tokens),
      decoder(std::move(spec.decoder)) {
  std::vector<AddedToken> raw, normalized;
  for (const AddedToken& token : added_tokens) {
    added_ids.emplace(token.content, token.id);
    (token.normalized ? normalized : raw).push_back(token);
  }
  raw_tokens = AddedTokenMatcher(std::move(raw));
  normalized_tokens = AddedTokenMatcher(std::move(normalized));
}

/// Appends the ids of a text; if its end is open, those that it has whatever follows.
void Tokenizer::Impl::append_ids(std::string_view text, TextEnd end, bool match_added_tokens,
                                 IdSink& sink) const {
  const AddedTokenMatcher nothing;
  const AddedTokenMatcher& raw = match_added_tokens ? raw_tokens : nothing;
  const AddedTokenMatcher& normalized = match_added_tokens ? normalized_tokens : nothing;
  std::string repaired;
  if (!is_valid_utf8(text)) text = repaired = replace_invalid_utf8(text);
  EncodeScratch scratch;
  const std::vector<TextSegment> segments = raw.split(text, end);
  for (const TextSegment& segment : segments) {
    if (sink.full()) return;
    if (segment.added_token) {
      sink.ids.push_back(*segment.added_token);
    } else {
      const bool last = &segment == &segments.back();
      append_segment(segment.text, segment.text.data() == text.data(), last ? end : TextEnd::kFinal,
                     normalized, scratch, sink);
    }
  }
}

/// Appends the ids of raw text, valid UTF-8, in which `tokens` are looked for once it is
/// normalized.
void Tokenizer::Impl::append_segment(std::string_view raw, bool begins_text, TextEnd end,
                                     const AddedTokenMatcher& tokens, EncodeScratch& scratch,
                                     IdSink& sink) const {
  std::string_view text = raw;
  if (end == TextEnd::kOpen) text = text.substr(0, normalizer.settled_bytes(text));
  text = normalizer.normalize(text, scratch.normalized);
  const std::vector<TextSegment> segments = tokens.split(text, end);
  for (const TextSegment& segment : segments) {
    if (sink.full()) return;
    if (segment.added_token) {
      sink.ids.push_back(*segment.added_token);
    } else {
      const bool last = &segment == &segments.back();
      const bool begins = begins_text && segment.text.data() == text.data();
      append_words(marked(segment.text, begins, scratch.marked), last ? end : TextEnd::kFinal,
                   scratch, sink);
    }
  }
}

/// Text as the pre-tokenizer's metaspace makes it.
std::string_view Tokenizer::Impl::marked(std::string_view text, bool begins_text,
                                         std::string& buffer) const {
  const auto& metaspace = pre_tokenizer.metaspace;
  return metaspace ? metaspace->marked(text, begins_text, buffer) : text;
}

/// Appends the ids of normalized and marked text and returns where they end in it.
size_t Tokenizer::Impl::append_words(std::string_view text, TextEnd end, EncodeScratch& scratch,
                                     IdSink& sink) const {
  size_t at = 0;
  while (!sink.full()) {
    const size_t next = pre_tokenizer.next_words(text, at, end, scratch.pre_tokens);
    if (next == at) break;
    for (const std::string_view word : scratch.pre_tokens.words) {
      if (sink.full()) break;
      model.append_ids(word, scratch.bpe, sink.ids);
    }
    at = next;
  }
  return at;
}

Tokenizer::Tokenizer(std::unique_ptr<const Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Tokenizer Tokenizer::load(const std::filesystem::path& path) {
  return Tokenizer(std::make_unique<const Impl>(read_tokenizer_json(path)));
}

Tokenizer Tokenizer::parse(std::string_view bytes, const std::string& name) {
  return Tokenizer(std::make_unique<const Impl>(parse_tokenizer_json(bytes, name)));
}

Tokenizer Tokenizer::from_spec(TokenizerSpec spec, const std::string& name) {
  check_spec(spec, name);
  return Tokenizer(std::make_unique<const Impl>(std::move(spec)));
}

std::vector<uint32_t> Tokenizer::encode(std::string_view utf8, const EncodeOptions& options) const {
  return encode_up_to(utf8, kAllIds, options).ids;
}

Tokenizer::Encoded Tokenizer::encode_up_to(std::string_view utf8, size_t ids_max,
                                           const EncodeOptions& options) const {
  const PostProcessor& added = impl_->post_processor;
  IdSink sink;
  if (options.add_special_tokens) sink.ids = added.prefix;
  const size_t before = sink.ids.size();
  // One more than is kept tells whether any were cut off. The first window nearly always has them.
  if (ids_max < kAllIds - before) sink.wanted = before + ids_max + 1;
  if (ids_max < utf8.size()) {
    size_t window = options.first_window;
    if (window == 0) window = kWindowBytesPerId * (ids_max + 1) + kWindowBytesMin;
    for (; window < utf8.size() && !sink.full(); window *= kWindowGrowth) {
      sink.ids.resize(before);
      const std::string_view head = utf8.substr(0, character_boundary(utf8, window));
      impl_->append_ids(head, TextEnd::kOpen, options.match_added_tokens, sink);
    }
  }
  if (!sink.full()) {
    sink.ids.resize(before);
    impl_->append_ids(utf8, TextEnd::kFinal, options.match_added_tokens, sink);
  }
  Encoded result;
  result.cut = sink.ids.size() - before > ids_max;
  if (result.cut) sink.ids.resize(before + ids_max);
  if (options.add_special_tokens) {
    sink.ids.insert(sink.ids.end(), added.suffix.begin(), added.suffix.end());
  }
  result.ids = std::move(sink.ids);
  return result;
}

Tokenizer::Beginning Tokenizer::encode_beginning(std::string_view utf8) const {
  if (!impl_->pre_tokenizer.starts_afresh() || !impl_->normalizer.goes_on()) {
    return {{}, std::string(utf8)};
  }
  // Bytes behind the end may belong to the last character.
  const bool complete = utf8.empty() || is_ascii(utf8.substr(utf8.size() - 1));
  const size_t known = complete ? utf8.size() : character_boundary(utf8, utf8.size() - 1);
  const std::string valid = replace_invalid_utf8(utf8.substr(0, known));
  EncodeScratch scratch;
  const size_t settled_bytes = impl_->normalizer.settled_bytes(valid);
  const std::string_view unsettled = std::string_view(valid).substr(settled_bytes);
  std::string_view settled = std::string_view(valid).substr(0, settled_bytes);
  settled = impl_->normalizer.normalize(settled, scratch.normalized);
  settled = impl_->marked(settled, true, scratch.marked);
  IdSink sink;
  const size_t at = impl_->append_words(settled, TextEnd::kOpen, scratch, sink);
  Beginning result{std::move(sink.ids), {}};
  result.rest.append(settled.substr(at)).append(unsettled).append(utf8.substr(known));
  return result;
}

const std::vector<uint32_t>& Tokenizer::prefix_tokens() const {
  return impl_->post_processor.prefix;
}

const std::vector<uint32_t>& Tokenizer::suffix_tokens() const {
  return impl_->post_processor.suffix;
}

std::optional<uint32_t> Tokenizer::token_id(std::string_view token) const {
  for (const Vocabulary* vocabulary : {&impl_->added_ids, &impl_->model.vocabulary()}) {
    if (const auto entry = vocabulary->find(token); entry != vocabulary->end())
      return entry->second;
  }
  return std::nullopt;
}

bool Tokenizer::is_added_token(uint32_t id) const {
  return std::ranges::find(impl_->added_tokens, id, &AddedToken::id) != impl_->added_tokens.end();
}

size_t Tokenizer::id_count() const { return impl_->id_count; }

std::optional<std::string_view> Tokenizer::token_content(uint32_t id) const {
  const TokenEntry* const entry = impl_->entries.find(id);
  return entry == nullptr ? std::nullopt : std::optional(entry->content);
}

std::string Tokenizer::token_bytes(uint32_t id) const {
  const TokenEntry* const entry = impl_->entries.find(id);
  return entry == nullptr ? std::string() : impl_->entry_bytes(entry->content);
}

bool Tokenizer::is_special(uint32_t id) const {
  const TokenEntry* const entry = impl_->entries.find(id);
  return entry != nullptr && entry->special;
}

std::string Tokenizer::Impl::entry_bytes(std::string_view content) const {
  return model.byte_level() ? byte_level_entry_bytes(content) : decoder.entry_bytes(content);
}

std::string Tokenizer::decode(std::span<const uint32_t> ids, bool skip_special_tokens) const {
  std::string bytes;
  std::vector<std::string> contents;
  for (const uint32_t id : ids) {
    const TokenEntry* const entry = impl_->entries.find(id);
    if (entry == nullptr || (skip_special_tokens && entry->special)) continue;
    if (impl_->model.byte_level()) {
      bytes += byte_level_entry_bytes(entry->content);
    } else {
      contents.emplace_back(entry->content);
    }
  }
  if (!impl_->model.byte_level()) return impl_->decoder.decode(std::move(contents));
  return is_valid_utf8(bytes) ? bytes : replace_invalid_utf8(bytes);
}

}  // namespace espalier::text
