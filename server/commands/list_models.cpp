#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>

#include "hub/cached_models.h"
#include "hub/environment.h"
#include "server/commands/commands.h"
#include "server/commands/progress_line.h"

namespace espalier::commands {
namespace {

constexpr size_t kCommitDigits = 12;

std::string joined(const std::vector<std::string>& texts) {
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string state_of(const hub::CachedModel& model) {
  if (!model.missing.empty()) {
    return "incomplete: lacks " + joined(model.missing) +
           (model.partial_bytes > 0 ? " (" + byte_text(model.partial_bytes) + " on the way)" : "");
  }
  return model.gguf.empty() ? "complete" : "complete: " + joined(model.gguf);
}

void print_table(const std::vector<hub::CachedModel>& models) {
  std::vector<std::vector<std::string>> rows = {{"MODEL", "REVISION", "COMMIT", "SIZE", "STATE"}};
  for (const auto& model : models) {
    rows.push_back({model.repository, model.revisions.empty() ? "-" : joined(model.revisions),
                    model.commit.empty() ? "-" : model.commit.substr(0, kCommitDigits),
                    byte_text(model.bytes), state_of(model)});
  }
  std::vector<size_t> widths(rows.front().size());
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  for (const auto& row : rows) {
    std::cout << fmt::format("{:<{}}  {:<{}}  {:<{}}  {:>{}}  {}\n", row[0], widths[0], row[1],
                             widths[1], row[2], widths[2], row[3], widths[3], row[4]);
  }
}

void print_json(const std::filesystem::path& cache, const std::vector<hub::CachedModel>& models) {
  auto list = nlohmann::ordered_json::array();
  for (const auto& model : models) {
    list.push_back({{"model", model.repository},
                    {"revisions", model.revisions},
                    {"commit", model.commit},
                    {"bytes", model.bytes},
                    {"partial_bytes", model.partial_bytes},
                    {"complete", model.missing.empty()},
                    {"missing", model.missing},
                    {"gguf", model.gguf}});
  }
  const nlohmann::ordered_json root = {{"cache", cache.string()}, {"models", std::move(list)}};
  // Names on disk may be no UTF-8.
  std::cout << root.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
}

}  // namespace

int list_models(const Options& options) {
  const auto environment =
      hub::read_environment([](const char* variable) { return std::getenv(variable); });
  const auto models = hub::cached_models(environment.cache);
  if (options.json) {
    print_json(environment.cache, models);
  } else if (models.empty()) {
    std::cout << "no models in " << environment.cache.string()
              << "; `espalier download ORG/NAME` fetches one\n";
  } else {
    print_table(models);
  }
  std::cout.flush();
  return std::cout ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace espalier::commands
