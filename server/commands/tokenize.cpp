#include <iostream>

#include "server/commands/commands.h"
#include "server/commands/json_lines.h"
#include "server/commands/model_files.h"
#include "server/commands/model_tokenizer.h"
#include "text/tokenizer.h"

namespace espalier::commands {

int tokenize(const Options& options) {
  std::ios::sync_with_stdio(false);
  const auto tokenizer = load_tokenizer(find_only_model(options).folder);
  text::EncodeOptions encode_options;
  encode_options.add_special_tokens = options.add_special_tokens;
  TextLines lines(std::cin);
  while (const auto text = lines.next()) {
    std::cout << "{\"ids\":" << id_array_text(tokenizer.encode(*text, encode_options)) << "}\n";
  }
  std::cout.flush();
  return std::cout ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace espalier::commands
