#include "text/tokenizer.h"

#include <algorithm>
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
  std::string normalized, normalized_prefix;
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
  void append_ids(std::string_view text, size_t added_tokens_within,
                  std::vector<uint32_t>& ids) const;
  void append_segment(std::string_view raw, size_t added_tokens_within, EncodeScratch& scratch,
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
void Tokenizer::Impl::append_ids(std::string_view text, size_t added_tokens_within,
                                 std::vector<uint32_t>& ids) const {
  EncodeScratch scratch;
  for (const TextSegment& segment : raw_tokens.split(text, added_tokens_within)) {
    if (segment.added_token) {
      ids.push_back(*segment.added_token);
      continue;
    }
    const auto begin = static_cast<size_t>(segment.text.data() - text.data());
    append_segment(segment.text, added_tokens_within - std::min(added_tokens_within, begin),
                   scratch, ids);
  }
}

void Tokenizer::Impl::append_segment(std::string_view raw, size_t added_tokens_within,
                                     EncodeScratch& scratch, std::vector<uint32_t>& ids) const {
  std::string_view text = raw;
  size_t within = added_tokens_within;
  if (normalizer) {
    text = normalizer->normalize(raw, scratch.normalized);
    if (!normalized_tokens.empty() && within < raw.size()) {
      // The limit, carried over to normalized text: up to the last place in front of it where
      // normalization can be cut.
      const auto prefix = raw.substr(0, normalizer->boundary_before(raw, within));
      within = normalizer->normalize(prefix, scratch.normalized_prefix).size();
    } else if (!normalized_tokens.empty()) {
      within = text.size();
    }
  }
  const auto append_word = [&](std::string_view word) { model.append_ids(word, scratch.bpe, ids); };
  for (const TextSegment& segment : normalized_tokens.split(text, within)) {
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
  size_t within = std::min(options.added_tokens_within_bytes, utf8.size());
  if (is_valid_utf8(utf8)) {
    impl_->append_ids(utf8, within, ids);
  } else {
    const std::string replaced = replace_invalid_utf8(utf8, within);
    impl_->append_ids(replaced, within, ids);
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
