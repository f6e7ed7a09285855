// Tokenizer::encode_with_offsets: the steps of encode(), each with an Alignment to the text before
// it. A path of its own, so that encode() does not pay for it.
#include <algorithm>
#include <utility>

#include "text/alignment.h"
#include "text/tokenizer_impl.h"
#include "text/utf8.h"

namespace espalier::text {
namespace {

std::string replace_invalid_utf8(std::string_view text, Alignment& alignment) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const DecodedCharacter character = decode_utf8(text, at);
    const size_t before = out.size();
    append_utf8(out, character.code_point);
    if (character.valid) {
      alignment.append_same(character.length);
    } else {
      alignment.append_changed(out.size() - before, character.length);
    }
    at += character.length;
  }
  return out;
}

ByteRange shifted(ByteRange range, size_t by) { return {range.begin + by, range.end + by}; }

}  // namespace

struct Tokenizer::Impl::OffsetSink {
  std::vector<TokenWithOffsets> tokens;
  Alignment to_given;             // from the text that is valid UTF-8 to the one that was given
  std::vector<Alignment> to_raw;  // from a segment's normalized text to its raw text, step by step
  size_t raw_begin = 0;           // … which is there in the valid text
  size_t segment_begin = 0;       // where append_words() is in the segment's normalized text
  Alignment to_normalized;        // from marked text to that
  EncodeScratch scratch;
  std::vector<uint32_t> word_ids;
  std::vector<size_t> word_ends;  // of the ids in the word

  void put(uint32_t id, ByteRange valid) {
    const ByteRange given = to_given.source_of(valid);
    tokens.push_back({id, given.begin, given.end, false});
  }
  void put_normalized(uint32_t id, ByteRange normalized) {
    for (auto step = to_raw.rbegin(); step != to_raw.rend(); ++step) {
      normalized = step->source_of(normalized);
    }
    put(id, shifted(normalized, raw_begin));
  }
};

void Tokenizer::Impl::append_with_offsets(std::string_view text, bool match_added_tokens,
                                          OffsetSink& sink) const {
  const AddedTokenMatcher nothing;
  const AddedTokenMatcher& raw = match_added_tokens ? raw_tokens : nothing;
  const AddedTokenMatcher& normalized = match_added_tokens ? normalized_tokens : nothing;
  std::string repaired;
  if (is_valid_utf8(text)) {
    sink.to_given.append_same(text.size());
  } else {
    text = repaired = replace_invalid_utf8(text, sink.to_given);
  }
  for (const TextSegment& segment : raw.split(text, TextEnd::kFinal)) {
    const auto begin = static_cast<size_t>(segment.text.data() - text.data());
    if (segment.added_token) {
      sink.put(*segment.added_token, {begin, begin + segment.text.size()});
    } else {
      sink.raw_begin = begin;
      append_segment(segment.text, normalized, sink);
    }
  }
}

void Tokenizer::Impl::append_segment(std::string_view raw, const AddedTokenMatcher& tokens,
                                     OffsetSink& sink) const {
  const std::string_view text = normalizer.normalize(raw, sink.scratch.normalized, sink.to_raw);
  for (const TextSegment& segment : tokens.split(text, TextEnd::kFinal)) {
    const auto begin = static_cast<size_t>(segment.text.data() - text.data());
    if (segment.added_token) {
      sink.put_normalized(*segment.added_token, {begin, begin + segment.text.size()});
    } else {
      sink.segment_begin = begin;
      append_words(segment.text, sink.raw_begin == 0 && begin == 0, sink);
    }
  }
}

void Tokenizer::Impl::append_words(std::string_view text, bool begins_text,
                                   OffsetSink& sink) const {
  const auto& metaspace = pre_tokenizer.metaspace;
  if (metaspace) {
    sink.to_normalized = {};
    text = metaspace->marked(text, begins_text, sink.scratch.marked, sink.to_normalized);
  }
  auto& pre_tokens = sink.scratch.pre_tokens;
  size_t word_begin = 0;  // in `text`
  for (size_t at = 0, next;
       (next = pre_tokenizer.next_words(text, at, TextEnd::kFinal, pre_tokens)) != at; at = next) {
    for (const std::string_view word : pre_tokens.words) {
      // Words are the text, but for a space before one where the text has none.
      const size_t inserted = word.front() == ' ' && text[word_begin] != ' ' ? 1 : 0;
      sink.word_ids.clear();
      sink.word_ends.clear();
      model.append_ids_with_ends(word, sink.scratch.bpe, sink.word_ids, sink.word_ends);
      size_t in_word = 0;
      for (size_t i = 0; i < sink.word_ids.size(); ++i) {
        const size_t end_in_word = sink.word_ends[i];
        ByteRange range{word_begin + std::max(in_word, inserted) - inserted,
                        word_begin + std::max(end_in_word, inserted + 1) - inserted};
        range = whole_characters(text, range);
        if (metaspace) range = sink.to_normalized.source_of(range);
        sink.put_normalized(sink.word_ids[i], shifted(range, sink.segment_begin));
        in_word = end_in_word;
      }
      word_begin += word.size() - inserted;
    }
  }
}

std::vector<TokenWithOffsets> Tokenizer::encode_with_offsets(std::string_view utf8,
                                                             const EncodeOptions& options) const {
  Impl::OffsetSink sink;
  const auto put_special = [&](const std::vector<uint32_t>& ids, size_t at) {
    if (!options.add_special_tokens) return;
    for (const uint32_t id : ids) sink.tokens.push_back({id, at, at, true});
  };
  put_special(impl_->post_processor.prefix, 0);
  impl_->append_with_offsets(utf8, options.match_added_tokens, sink);
  put_special(impl_->post_processor.suffix, utf8.size());
  return std::move(sink.tokens);
}

}  // namespace espalier::text
