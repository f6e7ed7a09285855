// scheduler_sim: how a scheduling policy, or a fleet of replicas, would do under a load, without a
// model and much faster than in real time.

#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "bench/scheduler_sim/report.h"

namespace {

using namespace espalier::sim;

constexpr const char* kExamples = R"(
Examples:
  scheduler_sim --load 20                                 a mixture of clients, all policies
  scheduler_sim --workload rerank --load 5 --policy shared --seconds 600
  scheduler_sim --client rerank,load=5,texts=50 --client embed,load=30,weight=4,deadline=1
  scheduler_sim --client groups,arrivals=closed,outstanding=500 --client embed,load=2,name=lone
  scheduler_sim --workload embed --policy shared --replicas 1,2,4,8 --load 500 --p99 2
                                                          the smallest fleet whose p99 is below 2 s
  scheduler_sim --rows-per-second 900 --fixed 0.02        for a slower machine

Kinds of clients: rerank (template + query + documents), embed (instruction + short text), groups
(long prefixes that many texts share), plain (texts that share nothing). docs/SIMULATOR.md says
more.)";

struct Options {
  std::string workload = "mixed";
  std::vector<std::string> clients;
  double load = 20;
  double seconds = 120;
  uint64_t seed = 1;
  std::vector<std::string> policies = {"shared", "fifo", "off"};
  std::vector<size_t> replicas = {1};
  std::string balance = "round-robin";
  std::optional<double> p99;
  double rows_per_second = 2500;
  double fixed = 0.005;
  bool json = false;
  SimulationSettings settings;
};

void add_load_options(CLI::App& app, Options& options) {
  app.add_option("--workload", options.workload, "A named mixture of clients")
      ->check(CLI::IsMember(workload_names()))
      ->capture_default_str();
  app.add_option("--client", options.clients,
                 "Instead: a group of clients, KIND[,key=value…]; may be given several times. "
                 "Keys: " +
                     client_spec_keys())
      ->take_all()
      ->delimiter('\0');
  app.add_option("--load", options.load, "Requests a second of the workload")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--seconds", options.seconds, "For so long requests come; they are all finished")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--seed", options.seed, "Of the trace and the noise")->capture_default_str();
}

void add_server_options(CLI::App& app, Options& options) {
  auto& server = options.settings.server;
  auto& limits = server.limits;
  app.add_option("--policy", options.policies,
                 "Policies to compare: shared (the server's), fifo, off")
      ->delimiter(',')
      ->check(CLI::IsMember({"shared", "fifo", "off"}))
      ->capture_default_str();
  app.add_option("--replicas", options.replicas, "Numbers of replicas to try")
      ->delimiter(',')
      ->check(CLI::Range(size_t{1}, size_t{1024}))
      ->capture_default_str();
  app.add_option("--balance", options.balance,
                 "Which replica gets a request: each in turn, the one with the fewest, or by what "
                 "requests share (query or prefix)")
      ->check(CLI::IsMember({"round-robin", "least-requests", "affinity"}))
      ->capture_default_str();
  app.add_option("--load-bound", options.settings.balance.load_bound,
                 "Times the mean of requests on the way, from which on affinity takes another one")
      ->check(CLI::Range(1.0, 1e6))
      ->capture_default_str();
  app.add_option("--p99", options.p99,
                 "Look for the smallest number of replicas with this latency, in seconds; requests "
                 "that are rejected or late count as infinite")
      ->check(CLI::PositiveNumber);
  app.add_option("--rows-per-second", options.rows_per_second, "Of a forward pass")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--fixed", options.fixed, "Seconds of any forward pass besides")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--pair-cost", server.costs.pair, "Of an attention pair, in rows")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--wanted-cost", server.costs.wanted, "Of a row that is read, in rows")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--noise", server.noise, "Standard deviation of a pass's time, as a share of it")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  const CLI::Range count(size_t{1}, size_t{1} << 30U);
  app.add_option("--batch-rows", limits.batch_rows_max, "Compact rows of a batch")
      ->check(count)
      ->capture_default_str();
  app.add_option("--batch-sequences", limits.batch_sequences_max, "Sequences of a batch")
      ->check(count)
      ->capture_default_str();
  app.add_option("--batch-seconds", limits.batch_seconds_max, "Predicted seconds of a batch")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--queue-tickets", limits.queue_tickets_max, "Texts that may wait")
      ->check(count)
      ->capture_default_str();
  app.add_option("--queue-tokens", limits.queue_tokens_max, "Tokens that may wait")
      ->check(count)
      ->capture_default_str();
}

Policy policy_of(const std::string& name) {
  for (const Policy policy : all_policies()) {
    if (name_of(policy) == name) return policy;
  }
  return Policy::kShared;
}

Balance balance_of(const std::string& name) {
  if (name == "affinity") return Balance::kAffinity;
  return name == "least-requests" ? Balance::kLeastRequests : Balance::kRoundRobin;
}

/// A line on stderr every second.
class ProgressLine final : public RunWatcher {
 public:
  ProgressLine(std::string label, double seconds) : label_(std::move(label)), seconds_(seconds) {}

  void on_time(double now) override {
    if (++calls_ % 256 != 0) return;
    const auto clock = std::chrono::steady_clock::now();
    if (clock - last_ < std::chrono::seconds(1)) return;
    last_ = clock;
    const char* const what = now < seconds_ ? "" : ", finishing what was sent";
    std::fprintf(stderr, "%s: at %.0f s of %.0f%s\n", label_.c_str(), now, seconds_, what);
  }

 private:
  std::string label_;
  double seconds_;
  size_t calls_ = 0;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

void print_fleets(const std::vector<LabelledSummary>& runs, const Options& options) {
  for (const std::string& name : options.policies) {
    std::optional<size_t> smallest;
    for (const LabelledSummary& run : runs) {
      if (name_of(run.policy) != name || !(run.summary.all.p99_of_wanted <= *options.p99)) continue;
      smallest = std::min(smallest.value_or(run.replicas), run.replicas);
    }
    if (smallest) {
      std::printf("%s: %zu replica%s keep%s p99 within %g s\n", name.c_str(), *smallest,
                  *smallest == 1 ? "" : "s", *smallest == 1 ? "s" : "", *options.p99);
    } else {
      std::printf("%s: none of these numbers of replicas keeps p99 within %g s\n", name.c_str(),
                  *options.p99);
    }
  }
}

void run(Options& options) {
  std::vector<ClientSpec> specs;
  for (const std::string& client : options.clients) specs.push_back(parse_client_spec(client));
  if (specs.empty()) specs = workload(options.workload, options.load);
  const Trace trace = make_trace(specs, options.seconds, options.seed);

  SimulationSettings& settings = options.settings;
  ServerSettings& server = settings.server;
  const double row = 1 / options.rows_per_second;
  server.truth = {options.fixed, row, server.costs.pair * row, server.costs.wanted * row};
  server.seed = options.seed;
  settings.balance.balance = balance_of(options.balance);

  std::vector<LabelledSummary> runs;
  for (const size_t replicas : options.replicas) {
    for (const std::string& name : options.policies) {
      settings.replicas = replicas;
      server.policy = policy_of(name);
      ProgressLine progress(name + ", replicas " + std::to_string(replicas), options.seconds);
      const RunResult result = simulate(trace, settings, &progress);
      runs.push_back({server.policy, replicas, summarise(trace, result, replicas)});
    }
  }
  if (options.json) {
    std::printf("%s\n", json(runs).c_str());
    return;
  }
  std::printf("%s", table(runs).c_str());
  if (options.p99) print_fleets(runs, options);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app(
      "Simulates Espalier's scheduler under a load: the real queue, planner and cost model "
      "on a fake clock.");
  app.footer(kExamples);
  add_load_options(app, options);
  add_server_options(app, options);
  app.add_flag("--json", options.json, "Print JSON");
  CLI11_PARSE(app, argc, argv);
  try {
    run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "scheduler_sim: %s\n", error.what());
    return 1;
  }
  return 0;
}
