// tokenizer_speed TOKENIZER_JSON SECONDS: stdin, one JSON {"documents": ["…", …]} a line -> stdout
// {"seconds": …, "ids": [[…], …]} a line: the ids of every document, and the seconds that the
// fastest of many passes over all of them took, on one thread. run.mjs compares both with Hugging
// Face's.
#include <algorithm>
#include <chrono>
#include <exception>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace {

using Clock = std::chrono::steady_clock;
using espalier::text::EncodeOptions;
using espalier::text::Tokenizer;

double fastest_pass(const Tokenizer& tokenizer, const std::vector<std::string>& documents,
                    double seconds) {
  double fastest = std::numeric_limits<double>::infinity();
  size_t ids = 0;
  const auto begin = Clock::now();
  const auto since = [](Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  do {
    const auto start = Clock::now();
    for (const std::string& document : documents) {
      ids += tokenizer.encode(document, {.add_special_tokens = false}).size();
    }
    fastest = std::min(fastest, since(start));
  } while (since(begin) < seconds);
  return ids == 0 ? 0.0 : fastest;  // reads `ids`, so that nothing is optimised away
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: tokenizer_speed TOKENIZER_JSON SECONDS\n";
    return 2;
  }
  try {
    const auto tokenizer = Tokenizer::load(argv[1]);
    const double seconds = std::stod(argv[2]);
    for (std::string line; std::getline(std::cin, line);) {
      const auto documents =
          nlohmann::json::parse(line).at("documents").get<std::vector<std::string>>();
      auto ids = nlohmann::json::array();
      for (const std::string& document : documents) {
        ids.push_back(tokenizer.encode(document, {.add_special_tokens = false}));
      }
      const double fastest = fastest_pass(tokenizer, documents, seconds);
      std::cout << nlohmann::json{{"seconds", fastest}, {"ids", ids}}.dump() << std::endl;
    }
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
  return 0;
}
