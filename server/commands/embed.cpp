#include <fmt/format.h>

#include <deque>
#include <future>
#include <iostream>
#include <stdexcept>

#include "server/commands/commands.h"
#include "server/commands/json_lines.h"
#include "server/commands/progress_line.h"
#include "server/commands/runtime.h"

namespace espalier::commands {
namespace {

/// Lines that are submitted as one request, and requests in flight: enough that the planner always
/// has a next batch to build while one computes.
constexpr size_t kLinesPerRequest = 256;
constexpr size_t kRequestsInFlight = 4;

using Answer = server::Result<server::EmbeddingAnswer>;

/// The next lines as a request, no more than are there already; without inputs at the end of stdin.
server::EmbeddingRequest next_request(TextLines& lines, const Options& options) {
  server::EmbeddingRequest request;
  while (request.inputs.size() < kLinesPerRequest) {
    auto text = lines.next();
    if (!text) break;
    request.inputs.emplace_back(std::move(*text));
    if (!lines.ready()) break;
  }
  if (!options.prompt_name.empty()) request.options.prompt_name = options.prompt_name;
  if (!options.instruction.empty()) request.options.instruction = options.instruction;
  if (options.dimensions > 0) request.dimensions = options.dimensions;
  return request;
}

}  // namespace

int embed(const Options& options) {
  std::ios::sync_with_stdio(false);
  Runtime runtime(options, nullptr);
  TextLines lines(std::cin);
  ProgressLine progress;
  std::deque<std::future<Answer>> in_flight;
  size_t written = 0;

  const auto write_oldest = [&] {
    const Answer answer = in_flight.front().get();
    in_flight.pop_front();
    if (!answer) {
      throw std::runtime_error(
          fmt::format("texts {} and following: {}", written + 1, answer.error().message));
    }
    for (const auto& embedding : answer->embeddings) {
      std::cout << "{\"embedding\":" << float_array_text(embedding) << "}\n";
    }
    written += answer->embeddings.size();
    progress.update([&] {
      return fmt::format("{} texts embedded, {:.0f}/s", written,
                         static_cast<double>(written) / progress.seconds());
    });
  };

  while (true) {
    // Whoever feeds us line by line gets each answer before we wait for the next line.
    while (!in_flight.empty() && (in_flight.size() == kRequestsInFlight || !lines.ready()))
      write_oldest();
    if (!lines.ready()) std::cout.flush();
    auto request = next_request(lines, options);
    if (request.inputs.empty()) break;
    in_flight.push_back(std::async(std::launch::async, [&runtime, request = std::move(request)] {
      server::RequestReport report;
      return runtime.service().embed(request, patient_caller(), report);
    }));
  }
  while (!in_flight.empty()) write_oldest();
  std::cout.flush();
  return std::cout ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace espalier::commands
