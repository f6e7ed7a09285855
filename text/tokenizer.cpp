#include "text/tokenizer.h"

#include <utility>

#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/pre_tokenizer.h"
#include "text/tokenizer_json.h"
#include "text/unicode_normalizer.h"
#include "text/utf8.h"

namespace espalier::text {

/// Buffers that are reused within one encode().
struct EncodeScratch {
  std::string normalized;
  PreTokenScratch pre_tokens;
  BpeScratch bpe;
};

struct Tokenizer::Impl {
  std::optional<UnicodeNormalizer> normalizer;
  AddedTokenMatcher raw_tokens;         // looked for before normalization …
  AddedTokenMatcher normalized_tokens;  // … and after it
  PreTokenizer pre_tokenizer;
  BpeModel model;
  PostProcessor post_processor;
  Vocabulary added_ids;
  size_t id_count;

  explicit Impl(TokenizerSpec spec);
  void append_ids(std::string_view text, bool match_added_tokens, std::vector<uint32_t>& ids) const;
  void append_segment(std::string_view raw, const AddedTokenMatcher& tokens, EncodeScratch& scratch,
                      std::vector<uint32_t>& ids) const;
};

Tokenizer::Impl::Impl(TokenizerSpec spec)
    : normalizer(std::move(spec.normalizer)),
      pre_tokenizer(std::move(spec.pre_tokenizer)),
      model(std::move(spec.model)),
      post_processor(std::move(spec.post_processor)),
      id_count(spec.id_count) {
  std::vector<AddedToken> raw, normalized;
  for (AddedToken& token : spec.added_tokens) {
    added_ids.emplace(token.content, token.id);
    (token.normalized ? normalized : raw).push_back(std::move(token));
  }
  raw_tokens = AddedTokenMatcher(std::move(raw));
  normalized_tokens = AddedTokenMatcher(std::move(normalized));
}

/// Appends the ids of valid UTF-8.
void Tokenizer::Impl::append_ids(std::string_view text, bool match_added_tokens,
                                 std::vector<uint32_t>& ids) const {
  const AddedTokenMatcher nothing;
  const AddedTokenMatcher& raw = match_added_tokens ? raw_tokens : nothing;
  const AddedTokenMatcher& normalized = match_added_tokens ? normalized_tokens : nothing;
  EncodeScratch scratch;
  for (const TextSegment& segment : raw.split(text)) {
    if (segment.added_token) {
      ids.push_back(*segment.added_token);
    } else {
      append_segment(segment.text, normalized, scratch, ids);
    }
  }
}

/// Appends the ids of raw text, in which `tokens` are looked for once it is normalized.
void Tokenizer::Impl::append_segment(std::string_view raw, const AddedTokenMatcher& tokens,
                                     EncodeScratch& scratch, std::vector<uint32_t>& ids) const {
  const std::string_view text = normalizer ? normalizer->normalize(raw, scratch.normalized) : raw;
  const auto append_word = [&](std::string_view word) { model.append_ids(word, scratch.bpe, ids); };
  for (const TextSegment& segment : tokens.split(text)) {
    if (segment.added_token) {
      ids.push_back(*segment.added_token);
    } else {
      pre_tokenizer.for_each_pre_token(segment.text, scratch.pre_tokens, append_word);
    }
  }
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

std::vector<uint32_t> Tokenizer::encode(std::string_view utf8, const EncodeOptions& options) const {
  std::vector<uint32_t> ids;
  const PostProcessor& added = impl_->post_processor;
  if (options.add_special_tokens) ids = added.prefix;
  if (is_valid_utf8(utf8)) {
    impl_->append_ids(utf8, options.match_added_tokens, ids);
  } else {
    impl_->append_ids(replace_invalid_utf8(utf8), options.match_added_tokens, ids);
  }
  if (options.add_special_tokens) ids.insert(ids.end(), added.suffix.begin(), added.suffix.end());
  return ids;
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

size_t Tokenizer::id_count() const { return impl_->id_count; }

}  // namespace espalier::text
