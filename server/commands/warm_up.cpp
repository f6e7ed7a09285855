#include "server/commands/warm_up.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

#include "engine/forward_pass.h"
#include "scheduler/plan_builder.h"

namespace espalier::commands {
namespace {

constexpr char kText[] = "A short text, read once before the first request.";
/// Activations for so few rows are in memory anyway.
constexpr size_t kTokensMax = 64;

bool is_finite(std::span<const float> values) {
  return std::ranges::all_of(values, [](float x) { return std::isfinite(x); });
}

/// The hidden state of the last of `ids`.
std::span<const float> last_hidden_state(engine::ForwardPass& pass, engine::DedupMode dedup,
                                         const std::vector<uint32_t>& ids) {
  scheduler::PlanBuilder builder(dedup);
  builder.add(0, ids, scheduler::WantedRows::kLast);
  engine::BatchPlan plan;
  builder.build(plan);
  return pass.run(plan, {}).row(0);
}

std::vector<uint32_t> bounded(std::vector<uint32_t> ids, const server::ServedModel& model) {
  ids.resize(std::min({ids.size(), kTokensMax, model.max_input_tokens}));
  for (const uint32_t id : ids) {
    if (id >= model.vocab_size) {
      throw std::runtime_error(fmt::format(
          "its tokenizer gives id {}, but its embedding table has {} rows", id, model.vocab_size));
    }
  }
  if (ids.empty()) throw std::runtime_error("its tokenizer makes no tokens of a text");
  return ids;
}

void run_all(const server::ServedModel& model, const scheduler::ModelPasses& passes,
             engine::DedupMode dedup) {
  const auto ids = bounded(model.tokenizer->encode(kText), model);
  for (engine::ForwardPass* const pass : {passes.main, passes.interlude}) {
    const auto embedding = model.embed(last_hidden_state(*pass, dedup, ids), {}, {});
    if (!is_finite(embedding)) throw std::runtime_error("its embedding is not finite");
  }
  if (!model.rerank_prompt) return;
  const auto pair = model.rerank_prompt->encode(std::nullopt, kText, kText, model.max_input_tokens);
  const auto hidden = last_hidden_state(*passes.main, dedup, bounded(pair.ids, model));
  if (!std::isfinite(model.relevance_logit(hidden))) {
    throw std::runtime_error("its score is not finite");
  }
}

}  // namespace

void warm_up(const server::ServedModel& model, const scheduler::ModelPasses& passes,
             engine::DedupMode dedup) {
  const auto started = std::chrono::steady_clock::now();
  try {
    run_all(model, passes, dedup);
  } catch (const std::exception& error) {
    throw std::runtime_error(fmt::format("{} is not served, because its first pass failed: {}",
                                         model.name, error.what()));
  }
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - started;
  spdlog::info("{} has been warmed up in {:.2f} s", model.name, taken.count());
}

}  // namespace espalier::commands
