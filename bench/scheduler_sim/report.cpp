#include "bench/scheduler_sim/report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

namespace espalier::sim {
namespace {

struct KindSamples {
  std::vector<double> waits, latencies, wanted;
};

void count(const Record& record, KindSummary& summary, KindSamples& samples) {
  ++summary.requests;
  if (record.taken != kNever) samples.waits.push_back(record.taken - record.arrived);
  switch (record.outcome) {
    case Outcome::kDone:
      ++summary.done;
      samples.latencies.push_back(record.ended - record.arrived);
      samples.wanted.push_back(record.ended - record.arrived);
      break;
    case Outcome::kRejected:
      ++summary.rejected;
      samples.wanted.push_back(kNever);
      break;
    case Outcome::kDeadline:
      ++summary.missed;
      samples.wanted.push_back(kNever);
      break;
    case Outcome::kCancelled:
      ++summary.cancelled;
      break;
    case Outcome::kOpen:
      break;
  }
}

void finish(KindSummary& summary, KindSamples samples) {
  summary.wait = percentiles(std::move(samples.waits));
  summary.latency = percentiles(std::move(samples.latencies));
  summary.p99_of_wanted = percentiles(std::move(samples.wanted)).p99;
}

template <typename... Args>
std::string line(const char* format, Args... args) {
  char text[256];
  std::snprintf(text, sizeof(text), format, args...);
  return text;
}

std::string kind_line(const KindSummary& kind) {
  return line("  %-10s %8zu %8zu %8zu %7zu %9zu | %7.3f %7.3f | %7.3f %7.3f %7.3f %7.3f\n",
              kind.name.c_str(), kind.requests, kind.done, kind.rejected, kind.missed,
              kind.cancelled, kind.wait.p50, kind.wait.p99, kind.latency.p50, kind.latency.p90,
              kind.latency.p99, kind.latency.max);
}

nlohmann::ordered_json to_json(const Percentiles& of) {
  return {{"p50", of.p50}, {"p90", of.p90}, {"p99", of.p99}, {"max", of.max}};
}

nlohmann::ordered_json to_json(const KindSummary& kind) {
  nlohmann::ordered_json result = {
      {"name", kind.name},          {"requests", kind.requests},
      {"done", kind.done},          {"rejected", kind.rejected},
      {"missed", kind.missed},      {"cancelled", kind.cancelled},
      {"wait", to_json(kind.wait)}, {"latency", to_json(kind.latency)}};
  // JSON knows no infinity: null says that more than one in a hundred got no answer in time.
  result["p99_of_wanted"] = std::isfinite(kind.p99_of_wanted)
                                ? nlohmann::ordered_json(kind.p99_of_wanted)
                                : nlohmann::ordered_json(nullptr);
  return result;
}

}  // namespace

Percentiles percentiles(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto rank = [&](double share) {
    const double n = std::ceil(share * static_cast<double>(values.size()));
    return values[std::max<size_t>(1, static_cast<size_t>(n)) - 1];
  };
  return {rank(0.5), rank(0.9), rank(0.99), values.back()};
}

Summary summarise(const Trace& trace, const RunResult& run, size_t replicas) {
  Summary summary;
  summary.all.name = "all";
  for (const ClientSpec& spec : trace.specs) {
    summary.kinds.emplace_back();
    summary.kinds.back().name = spec.name;
  }
  KindSamples all;
  std::vector<KindSamples> kinds(trace.specs.size());
  double tokens_done = 0;
  for (const Record& record : run.requests) {
    count(record, summary.all, all);
    count(record, summary.kinds[record.spec], kinds[record.spec]);
    if (record.outcome == Outcome::kDone) tokens_done += static_cast<double>(record.tokens);
  }
  finish(summary.all, std::move(all));
  for (size_t k = 0; k < kinds.size(); ++k) finish(summary.kinds[k], std::move(kinds[k]));

  double busy = 0;
  for (const BatchRecord& batch : run.batches) {
    busy += batch.ended - batch.started;
    summary.rows += batch.rows;
    summary.tokens += static_cast<double>(batch.tokens);
  }
  const auto ratio = [](double a, double b) { return b > 0 ? a / b : 0; };
  summary.seconds = run.seconds;
  summary.requests_per_second = ratio(static_cast<double>(summary.all.done), run.seconds);
  summary.tokens_per_second = ratio(tokens_done, run.seconds);
  summary.compression = ratio(summary.tokens, summary.rows);
  summary.utilisation = ratio(busy, run.seconds * static_cast<double>(replicas));
  summary.batches = run.batches.size();
  summary.batch_seconds = ratio(busy, static_cast<double>(summary.batches));
  return summary;
}

std::string table(const std::vector<LabelledSummary>& runs) {
  std::string text;
  for (const LabelledSummary& run : runs) {
    const Summary& s = run.summary;
    text += line("%s, %zu replica%s: %.1f requests/s, %.0f tokens/s in %.0f s\n",
                 name_of(run.policy).c_str(), run.replicas, run.replicas == 1 ? "" : "s",
                 s.requests_per_second, s.tokens_per_second, s.seconds);
    text += line("  %.0f tokens on %.0f rows (%.2f : 1), busy %.1f %%, %zu batches of %.3f s\n",
                 s.tokens, s.rows, s.compression, 100 * s.utilisation, s.batches, s.batch_seconds);
    text += line("  %-10s %8s %8s %8s %7s %9s | %15s | %31s\n", "", "", "", "", "", "", "wait, s",
                 "latency, s");
    text += line("  %-10s %8s %8s %8s %7s %9s | %7s %7s | %7s %7s %7s %7s\n", "kind", "requests",
                 "answered", "rejected", "missed", "cancelled", "p50", "p99", "p50", "p90", "p99",
                 "max");
    for (const KindSummary& kind : s.kinds) text += kind_line(kind);
    if (s.kinds.size() > 1) text += kind_line(s.all);
    text += "\n";
  }
  return text;
}

std::string json(const std::vector<LabelledSummary>& runs) {
  nlohmann::ordered_json result = nlohmann::ordered_json::array();
  for (const LabelledSummary& run : runs) {
    const Summary& s = run.summary;
    nlohmann::ordered_json entry = {{"policy", name_of(run.policy)},
                                    {"replicas", run.replicas},
                                    {"seconds", s.seconds},
                                    {"requests_per_second", s.requests_per_second},
                                    {"tokens_per_second", s.tokens_per_second},
                                    {"tokens", s.tokens},
                                    {"rows", s.rows},
                                    {"compression", s.compression},
                                    {"utilisation", s.utilisation},
                                    {"batches", s.batches},
                                    {"batch_seconds", s.batch_seconds},
                                    {"all", to_json(s.all)},
                                    {"kinds", nlohmann::ordered_json::array()}};
    for (const KindSummary& kind : s.kinds) entry["kinds"].push_back(to_json(kind));
    result.push_back(std::move(entry));
  }
  return result.dump(2);
}

}  // namespace espalier::sim
