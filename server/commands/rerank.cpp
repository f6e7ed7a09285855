#include <iostream>
#include <stdexcept>

#include "server/commands/commands.h"
#include "server/commands/json_lines.h"
#include "server/commands/runtime.h"

namespace espalier::commands {

int rerank(const Options& options) {
  std::ios::sync_with_stdio(false);
  Runtime runtime(options, nullptr);
  server::ScoreRequest request;
  request.queries.push_back(options.query);
  if (!options.instruction.empty()) request.instruction = options.instruction;
  TextLines lines(std::cin);
  while (auto text = lines.next()) request.documents.push_back(std::move(*text));
  if (request.documents.empty()) return EXIT_SUCCESS;

  server::RequestReport report;
  const auto answer = runtime.service().score(request, patient_caller(), report);
  if (!answer) throw std::runtime_error(answer.error().message);
  for (const auto& [index, logit] : server::best_first(answer->logits, std::nullopt)) {
    std::cout << "{\"index\":" << index
              << ",\"score\":" << float_text(server::relevance(logit, answer->scale)) << "}\n";
  }
  std::cout.flush();
  return std::cout ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace espalier::commands
