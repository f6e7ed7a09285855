// encode_lines TOKENIZER_JSON [--add-special-tokens]: stdin, one JSON {"text": …} a line -> stdout
// {"ids": […]} a line, as `espalier tokenize` does.
#include <exception>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "text/tokenizer.h"

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3 || (argc == 3 && std::string_view(argv[2]) != "--add-special-tokens")) {
    std::cerr << "usage: encode_lines TOKENIZER_JSON [--add-special-tokens]\n";
    return 2;
  }
  try {
    const auto tokenizer = espalier::text::Tokenizer::load(argv[1]);
    const espalier::text::EncodeOptions options{.add_special_tokens = argc == 3};
    std::ios::sync_with_stdio(false);
    for (std::string line; std::getline(std::cin, line);) {
      const auto text = nlohmann::json::parse(line).at("text").get<std::string>();
      std::cout << nlohmann::json{{"ids", tokenizer.encode(text, options)}}.dump() << '\n';
    }
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
  return 0;
}
