#include <iostream>
#include <stdexcept>

#include "server/commands/commands.h"
#include "server/commands/json_lines.h"
#include "server/commands/runtime.h"

namespace espalier::commands {

int rerank(const Options& options) {
  std::ios::sync_with_stdio(false);
  Runtime runtime(options, nullptr);
  server::RerankRequest request;
  request.query = options.query;
  if (!options.instruction.empty()) request.instruction = options.instruction;
  TextLines lines(std::cin);
  while (auto text = lines.next()) request.documents.push_back(std::move(*text));
  if (request.documents.empty()) return EXIT_SUCCESS;

  server::StageTimes times;
  const auto answer = runtime.service().rerank(request, patient_caller(), times);
  if (!answer) throw std::runtime_error(answer.error().message);
  for (const auto& result : answer->results) {
    std::cout << "{\"index\":" << result.index
              << ",\"score\":" << float_text(result.relevance_score) << "}\n";
  }
  std::cout.flush();
  return std::cout ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace espalier::commands
