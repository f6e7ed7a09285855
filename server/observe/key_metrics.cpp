#include "server/observe/key_metrics.h"

namespace espalier::server {

KeyMetrics::KeyMetrics(prometheus::Registry& registry)
    : requests_(counters(registry, "espalier_key_requests_total",
                         "Requests computed, by the API key's name.")),
      tokens_(counters(registry, "espalier_key_tokens_total",
                       "Tokens of the inputs of each API key's requests.")),
      rows_(counters(registry, "espalier_key_rows_total",
                     "Rows computed for each API key's requests: tokens less what they shared.")) {}

void KeyMetrics::add_key(const std::string& name) {
  if (name.empty()) return;
  const prometheus::Labels labels{{"key", label_value(name)}};
  keys_[name] = {&requests_.Add(labels), &tokens_.Add(labels), &rows_.Add(labels)};
}

void KeyMetrics::on_usage(const std::string& name, size_t tokens, size_t new_rows) {
  const auto key = keys_.find(name);
  if (key == keys_.end()) return;
  key->second.requests->Increment();
  key->second.tokens->Increment(static_cast<double>(tokens));
  key->second.rows->Increment(static_cast<double>(new_rows));
}

}  // namespace espalier::server
