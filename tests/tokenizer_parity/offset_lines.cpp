// offset_lines TOKENIZER_JSON: stdin, one JSON object a line -> stdout one a line:
//   {"text": …} -> {"ids": […], "offsets": [[begin, end] …], "special": […]}, in bytes;
//   {"ids": […]} -> {"texts": [all tokens, without special ones]}.
#include <exception>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace {

using espalier::text::Tokenizer;
using nlohmann::json;

json offsets_of(const Tokenizer& tokenizer, const std::string& text) {
  json ids = json::array(), offsets = json::array(), special = json::array();
  for (const auto& token : tokenizer.encode_with_offsets(text)) {
    ids.push_back(token.id);
    offsets.push_back({token.begin, token.end});
    special.push_back(token.special);
  }
  return {{"ids", ids}, {"offsets", offsets}, {"special", special}};
}

json texts_of(const Tokenizer& tokenizer, const std::vector<uint32_t>& ids) {
  return {{"texts", {tokenizer.decode(ids, false), tokenizer.decode(ids, true)}}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: offset_lines TOKENIZER_JSON\n";
    return 2;
  }
  try {
    const auto tokenizer = Tokenizer::load(argv[1]);
    std::ios::sync_with_stdio(false);
    for (std::string line; std::getline(std::cin, line);) {
      const json request = json::parse(line);
      const json answer = request.contains("text")
                              ? offsets_of(tokenizer, request["text"].get<std::string>())
                              : texts_of(tokenizer, request["ids"].get<std::vector<uint32_t>>());
      std::cout << answer.dump() << '\n';
    }
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
  return 0;
}
