// A model without weights: its hidden states tell which tokens they were computed from.
#pragma once

#include <condition_variable>
#include <mutex>
#include <vector>

#include "engine/forward_pass.h"
#include "server/service/served_model.h"
#include "text/tokenizer.h"

namespace espalier::server {

/// H = 4. The state of a row is (token id, position, batch number, 1).
class FakeForwardPass final : public engine::ForwardPass {
 public:
  static constexpr size_t kHiddenSize = 4;

  size_t hidden_size() const override { return kHiddenSize; }
  engine::ConstMatView run(const engine::BatchPlan& plan,
                           const engine::PassProgress& progress) override;

  /// Holds batches back until open() is called.
  void close();
  void open();
  /// Waits until a batch is being computed.
  void await_running();
  /// Makes the next batches throw.
  void fail(bool on);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool closed_ = false;
  bool failing_ = false;
  size_t batches_ = 0;
  std::vector<float> states_;
};

/// The bundled model's tokenizer, loaded once.
const text::Tokenizer& mini_tokenizer();

/// espalier-mini's tokenizer, template and prompts, with heads that show the hidden state:
/// embed gives its first `dimensions`; the logit of relevance is minus the position of the last
/// token.
ServedModel fake_served_model();

}  // namespace espalier::server
