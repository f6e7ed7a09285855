#include "server/observe/batch_metrics.h"

#include <algorithm>

#include "server/observe/batch_closed_name.h"

namespace espalier::server {
namespace {

/// Of a batch's weight, what is left after the next one.
constexpr double kKept = 0.95;

}  // namespace

double RecentCompression::observe(size_t tokens, size_t rows) {
  const std::lock_guard lock(mutex_);
  tokens_ = kKept * tokens_ + static_cast<double>(tokens);
  rows_ = kKept * rows_ + static_cast<double>(rows);
  return rows_ > 0 ? tokens_ / rows_ : 1;
}

BatchMetrics::BatchMetrics(prometheus::Registry& registry, const prometheus::Labels& labels)
    : tokens_(counter(registry, "espalier_tokens_total",
                      "Tokens of computed sequences (full rows).", labels)),
      compact_tokens_(counter(
          registry, "espalier_compact_tokens_total",
          "Rows computed for them: every distinct prefix of a batch once (compact rows).", labels)),
      rows_saved_(counter(registry, "espalier_rows_saved_total",
                          "Rows that were not computed because sequences of a batch share them.",
                          labels)),
      sequences_(counter(registry, "espalier_sequences_total",
                         "Sequences computed: inputs and documents.", labels)),
      compression_ratio_(gauge(
          registry, "espalier_compression_ratio",
          "Tokens for each row computed, of about the last 20 batches (each weighs 5 % less with "
          "every one after it); 1: nothing shared, or no batch yet.",
          labels)),
      batches_(
          counter(registry, "espalier_batches_total", "Batches run, failed ones too.", labels)),
      failures_(counter(registry, "espalier_batch_failures_total",
                        "Batches whose forward pass failed.", labels)),
      abandoned_(counter(
          registry, "espalier_batches_abandoned_total",
          "Batches given up while they ran, because nobody waited for their results any more.",
          labels)),
      interludes_(counter(registry, "espalier_interludes_total",
                          "Batches of short inputs that ran within a long one.", labels)),
      plan_refinements_(counter(
          registry, "espalier_plan_refinements_total",
          "Times that a waiting plan was made anew because inputs had come or gone.", labels)),
      batch_rows_(histogram(registry, "espalier_batch_rows",
                            "Rows computed for a batch: its distinct prefixes (compact rows).",
                            count_buckets(), labels)),
      batch_tokens_(histogram(registry, "espalier_batch_tokens",
                              "Tokens of a batch's sequences (full rows).", count_buckets(),
                              labels)),
      batch_sequences_(histogram(registry, "espalier_batch_sequences", "Sequences of a batch.",
                                 count_buckets(), labels)),
      plan_seconds_(histogram(registry, "espalier_plan_duration_seconds", "Planning a batch.",
                              duration_buckets(), labels)),
      compute_seconds_(histogram(registry, "espalier_compute_duration_seconds",
                                 "The forward pass of a batch.", duration_buckets(), labels)) {
  using scheduler::BatchClosed;
  auto& closed_family = counters(
      registry, "espalier_batch_closed_total",
      "Batches by what kept them from taking in more: nothing else waited, or the limit of "
      "their rows, sequences or predicted seconds.");
  for (const auto closed : {BatchClosed::kQueueEmpty, BatchClosed::kRows, BatchClosed::kSequences,
                            BatchClosed::kSeconds}) {
    prometheus::Labels reason = labels;
    reason.emplace("reason", name_of(closed));
    closed_by_[static_cast<size_t>(closed)] = &closed_family.Add(reason);
  }
  compression_ratio_.Set(1);
}

void BatchMetrics::on_batch(const scheduler::BatchReport& report) {
  batches_.Increment();
  plan_seconds_.Observe(report.plan_seconds);
  closed_by_[static_cast<size_t>(report.closed)]->Increment();
  plan_refinements_.Increment(static_cast<double>(report.refinements));
  if (report.failed) {
    failures_.Increment();
  } else if (report.abandoned) {
    abandoned_.Increment();
  } else {
    on_computed(report);
  }
}

void BatchMetrics::on_computed(const scheduler::BatchReport& report) {
  const auto full_rows = static_cast<double>(report.full_rows);
  const auto compact_rows = static_cast<double>(report.compact_rows);
  const auto sequences = static_cast<double>(report.sequences);
  if (report.interlude) interludes_.Increment();
  tokens_.Increment(full_rows);
  compact_tokens_.Increment(compact_rows);
  // A plan never has more rows than tokens; a report that says so must not count backwards.
  rows_saved_.Increment(std::max(0.0, full_rows - compact_rows));
  sequences_.Increment(sequences);
  compression_ratio_.Set(recent_compression_.observe(report.full_rows, report.compact_rows));
  batch_tokens_.Observe(full_rows);
  batch_rows_.Observe(compact_rows);
  batch_sequences_.Observe(sequences);
  compute_seconds_.Observe(report.compute_seconds);
}

}  // namespace espalier::server
