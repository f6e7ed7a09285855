// text-embeddings-inference's POST /tokenize and /decode: JSON in, typed request; typed answer,
// JSON out.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/service/inference_service.h"

namespace espalier::server {

/// `inputs` (a string or an array of strings), `add_special_tokens` (true), and a prompt.
Result<TokenizeRequest> parse_tokenize(std::string_view body);
/// [[{"id","text","special","start","stop"}, …], …]: offsets in bytes of the text and its prompt,
/// null for tokens that the tokenizer added.
std::string render_tokens(const std::vector<TokenizedText>& texts,
                          const text::Tokenizer& tokenizer);

/// `ids` (an array of token ids, or of such arrays), `skip_special_tokens` (true).
Result<DecodeRequest> parse_decode(std::string_view body);
/// [text, …].
std::string render_texts(const std::vector<std::string>& texts);

}  // namespace espalier::server
