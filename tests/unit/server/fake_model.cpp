#include "fake_model.h"

#include <filesystem>
#include <stdexcept>

namespace espalier::server {

engine::ConstMatView FakeForwardPass::run(const engine::BatchPlan& plan,
                                          const engine::PassProgress& progress) {
  {
    std::unique_lock lock(mutex_);
    ++batches_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return !closed_; });
    if (failing_) throw std::runtime_error("the forward pass failed");
  }
  if (progress && !progress(1, 1)) return {nullptr, 0, kHiddenSize};
  states_.clear();
  for (const uint32_t row : plan.wanted_rows) {
    states_.push_back(static_cast<float>(plan.token_ids[row]));
    states_.push_back(static_cast<float>(plan.positions[row]));
    states_.push_back(static_cast<float>(batches_));
    states_.push_back(1);
  }
  return {states_.data(), plan.wanted_rows.size(), kHiddenSize};
}

void FakeForwardPass::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
}

void FakeForwardPass::open() {
  const std::lock_guard lock(mutex_);
  closed_ = false;
  changed_.notify_all();
}

void FakeForwardPass::await_running() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return batches_ > 0; });
}

void FakeForwardPass::fail(bool on) {
  const std::lock_guard lock(mutex_);
  failing_ = on;
}

const text::Tokenizer& mini_tokenizer() {
  static const text::Tokenizer tokenizer =
      text::Tokenizer::load(std::filesystem::path(ESPALIER_MINI_MODEL) / "tokenizer.json");
  return tokenizer;
}

ServedModel fake_served_model() {
  ServedModel model;
  model.name = "fake";
  model.tokenizer = &mini_tokenizer();
  model.hidden_size = FakeForwardPass::kHiddenSize;
  model.embedding_size = FakeForwardPass::kHiddenSize;
  model.vocab_size = 8192;
  model.max_input_tokens = 128;
  model.prompts = {{"query", "Instruct: find it\nQuery:"}, {"document", ""}};
  model.embed = [](std::span<const float> hidden, std::optional<size_t> dimensions,
                   std::optional<bool> /*normalize*/) {
    const auto kept = hidden.first(dimensions.value_or(hidden.size()));
    return std::vector<float>(kept.begin(), kept.end());
  };
  model.rerank_prompt.emplace(mini_tokenizer());
  model.relevance_logit = [](std::span<const float> hidden) {
    return -static_cast<double>(hidden[1]);
  };
  return model;
}

}  // namespace espalier::server
