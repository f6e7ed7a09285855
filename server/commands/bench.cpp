// `espalier bench`: forward passes without HTTP. Every grid point's modes and formats are timed in
// turn, round by round, so that the ratios of one run hold on a machine that is not quiet.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "engine/cpu_features.h"
#include "models/model.h"
#include "models/model_config.h"
#include "scheduler/batch_runner.h"
#include "server/commands/bench_batch.h"
#include "server/commands/bench_limits.h"
#include "server/commands/commands.h"
#include "server/commands/gemm_choice.h"
#include "server/commands/model_files.h"
#include "server/commands/progress_line.h"
#include "server/commands/runtime.h"

namespace espalier::commands {
namespace {

using engine::ConstMatView;
using engine::NumberFormat;
using nlohmann::ordered_json;

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> items;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    items.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return items;
}

[[noreturn]] void refuse(const std::string& option, const std::string& item,
                         const std::string& expected) {
  throw std::runtime_error("--" + option + ": '" + item + "' is not " + expected);
}

std::vector<size_t> numbers(const std::string& option, const std::string& list) {
  std::vector<size_t> values;
  for (const std::string& item : split(list)) {
    size_t value = 0;
    const auto [end, error] = std::from_chars(item.data(), item.data() + item.size(), value);
    if (error != std::errc() || end != item.data() + item.size() || value > (size_t{1} << 24U)) {
      refuse(option, item, "a whole number of at most 16777216");
    }
    values.push_back(value);
  }
  return values;
}

std::vector<std::string> words(const std::string& option, const std::string& list,
                               const std::vector<std::string>& known) {
  const std::vector<std::string> items = split(list);
  for (const std::string& item : items) {
    if (std::ranges::find(known, item) == known.end()) {
      refuse(option, item, fmt::format("one of {}", fmt::join(known, ", ")));
    }
  }
  return items;
}

/// A model loaded in one format.
struct BenchModel {
  NumberFormat format;
  std::shared_ptr<const engine::GemmBackend> gemm;
  std::unique_ptr<models::Model> model;
};

/// One line of the result: a format and a mode on one batch.
struct Run {
  BenchModel* model;
  std::string dedup;
  engine::BatchPlan plan;
  std::vector<double> seconds;
  models::StageSeconds stages;  // over all timed passes
};

models::StageSeconds difference(const models::StageSeconds& a, const models::StageSeconds& b) {
  return {a.gemm - b.gemm, a.attention - b.attention, a.rows - b.rows,
          a.gather_scatter - b.gather_scatter};
}

/// The wanted states, sequence by sequence.
std::vector<float> answers(Run& run) {
  const ConstMatView states = run.model->model->forward_pass().run(run.plan, {});
  std::vector<float> values;
  for (size_t s = 0; s < run.plan.ends.size(); ++s) {
    const auto row =
        scheduler::copy_hidden_states(run.plan, states, s, scheduler::WantedRows::kLast);
    values.insert(values.end(), row.begin(), row.end());
  }
  return values;
}

double cosine(const std::vector<float>& a, const std::vector<float>& b) {
  const auto dot = [](const auto& x, const auto& y) {
    return std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
  };
  return dot(a, b) / std::sqrt(dot(a, a) * dot(b, b));
}

/// Runs that agree are worth timing: those of one format must be nearly equal in all modes (with
/// our own kernels they are, bit for bit). Those of different formats should be similar; how
/// similar depends on the model.
void check_answers(std::vector<Run>& runs) {
  constexpr double kLeastWithinFormat = 0.9999;
  constexpr double kUsualAcrossFormats = 0.98;
  std::map<NumberFormat, std::vector<float>> first_of;
  for (Run& run : runs) {
    const std::vector<float> values = answers(run);
    for (const auto& [format, first] : first_of) {
      const bool same = format == run.model->format;
      const double similarity = cosine(values, first);
      if (!same && !(similarity > kUsualAcrossFormats)) {
        spdlog::warn("{} has a cosine of only {:.4f} to {}: this model loses accuracy in it",
                     name_of(run.model->format), similarity, name_of(format));
      }
      if (same && !(similarity > kLeastWithinFormat)) {
        throw std::runtime_error(
            fmt::format("wrong answers: {} with --dedup {} has a cosine of {} to {}",
                        name_of(run.model->format), run.dedup, similarity, name_of(format)));
      }
    }
    first_of.try_emplace(run.model->format, values);
  }
}

void time_once(Run& run) {
  const models::StageSeconds before = run.model->model->stage_seconds();
  const auto started = std::chrono::steady_clock::now();
  run.model->model->forward_pass().run(run.plan, {});
  run.seconds.push_back(
      std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count());
  const models::StageSeconds stages = difference(run.model->model->stage_seconds(), before);
  run.stages.gemm += stages.gemm;
  run.stages.attention += stages.attention;
  run.stages.rows += stages.rows;
  run.stages.gather_scatter += stages.gather_scatter;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

ordered_json report(const Run& run, const BatchShape& shape) {
  const models::ModelConfig& config = run.model->model->config();
  const auto passes = static_cast<double>(run.seconds.size());
  const double seconds = median(run.seconds);
  const double gemm_seconds = run.stages.gemm / passes;
  const double attention_seconds = run.stages.attention / passes;
  const size_t rows = run.plan.compact_rows();
  return {
      {"dtype", std::string(name_of(run.model->format))},
      {"dedup", run.dedup},
      {"batch", shape.sequences},
      {"prefix", shape.prefix},
      {"suffix", shape.suffix},
      {"tokens", shape.tokens()},
      {"compact_rows", rows},
      {"seconds",
       {{"median", seconds},
        {"min", std::ranges::min(run.seconds)},
        {"max", std::ranges::max(run.seconds)}}},
      {"tokens_per_second", static_cast<double>(shape.tokens()) / seconds},
      {"compact_rows_per_second", static_cast<double>(rows) / seconds},
      {"stages",
       {{"gemm", gemm_seconds},
        {"attention", attention_seconds},
        {"rows", run.stages.rows / passes},
        {"gather_scatter", run.stages.gather_scatter / passes}}},
      {"gemm_gflops", 1e-9 * gemm_flops(config, rows, run.plan.wanted_rows.size()) / gemm_seconds},
      {"attention_gflops", 1e-9 * attention_flops(config, run.plan) / attention_seconds},
  };
}

/// All points of the grid, checked before anything takes time.
std::vector<BatchShape> grid(const Options& options, size_t positions_max) {
  std::vector<BatchShape> shapes;
  for (const size_t batch : numbers("batch", options.bench_batches)) {
    for (const size_t prefix : numbers("prefix", options.bench_prefixes)) {
      for (const size_t suffix : numbers("suffix", options.bench_suffixes)) {
        if (batch == 0 || prefix + suffix == 0) {
          throw std::runtime_error("--batch, and --prefix + --suffix, must be at least 1");
        }
        if (prefix + suffix > positions_max) {
          throw std::runtime_error(
              fmt::format("--prefix {} and --suffix {} exceed the model's {} positions", prefix,
                          suffix, positions_max));
        }
        shapes.push_back({batch, prefix, suffix});
      }
    }
  }
  return shapes;
}

class Bench {
 public:
  explicit Bench(const Options& options)
      : options_(options),
        pool_(std::make_shared<engine::ThreadPool>(options.threads > 0 ? options.threads
                                                                       : engine::usable_cpus())) {
    const auto folder = find_only_model(options).folder;
    shapes_ = grid(options, models::read_model_config(folder).max_positions);
    for (const std::string& dtype :
         words("dtype", options.bench_dtypes, {"auto", "f32", "bf16", "int8"})) {
      const NumberFormat format = number_format(dtype);
      progress_.update([&] { return fmt::format("loading {} as {}", folder.string(), dtype); });
      auto gemm = choose_gemm(options.gemm, format);
      auto model = models::Model::load(folder, gemm, pool_, {});
      models_.push_back(
          {format, std::move(gemm), std::make_unique<models::Model>(std::move(model))});
    }
  }

  ordered_json run() {
    ordered_json result;
    result["machine"] = machine();
    result["limits"] = limits();
    result["runs"] = ordered_json::array();
    for (const BatchShape& shape : shapes_) {
      for (const Run& run : time_shape(shape)) result["runs"].push_back(report(run, shape));
    }
    return result;
  }

 private:
  ordered_json machine() const {
    ordered_json kernels;
    for (const BenchModel& loaded : models_) kernels.push_back(loaded.gemm->description());
    return {{"cpu", cpu_model_name()},
            {"instruction_set", engine::isa_description()},
            {"threads", pool_->size()},
            {"kernels", kernels}};
  }

  /// A library's rate is given where it has the format on this CPU.
  ordered_json limits() {
    ordered_json gemm, native, peaks;
    for (const BenchModel& loaded : models_) {
      const std::string name(name_of(loaded.format));
      progress_.update([&] { return "measuring the limits of " + name; });
      const models::ModelConfig& config = loaded.model->config();
      try {
        gemm[name] = gemm_rate(*choose_gemm("onednn", loaded.format), *pool_, config);
      } catch (const std::exception&) {  // refused, or failed inside the library
        gemm[name] = nullptr;
      }
      native[name] = gemm_rate(*choose_gemm("native", loaded.format), *pool_, config);
      peaks[name] = kernel_peak(loaded.format, *pool_);
    }
    const std::optional<double> amx = amx_peak(*pool_);
    return {{"gemm_gflops", gemm},
            {"native_gemm_gflops", native},
            {"cached_kernel_gflops", peaks},
            {"amx_peak_gflops", amx ? ordered_json(*amx) : ordered_json()},
            {"read_gbps", read_bandwidth(*pool_)}};
  }

  std::vector<Run> time_shape(const BatchShape& shape) {
    std::vector<Run> runs;
    for (BenchModel& loaded : models_) {
      for (const std::string& dedup :
           words("dedup", options_.bench_dedups, {"trie", "radixmlp", "off"})) {
        runs.push_back({&loaded,
                        dedup,
                        synthetic_plan(shape, loaded.model->config().vocab_size, dedup_mode(dedup)),
                        {},
                        {}});
      }
    }
    const std::string name =
        fmt::format("{} x ({} shared + {})", shape.sequences, shape.prefix, shape.suffix);
    progress_.update([&] { return name + ": checking the answers"; });
    check_answers(runs);
    for (size_t round = 0; round < options_.repeat; ++round) {
      for (Run& run : runs) {
        progress_.update([&] {
          return fmt::format("{}: round {} of {}, {} {}", name, round + 1, options_.repeat,
                             name_of(run.model->format), run.dedup);
        });
        time_once(run);
      }
    }
    return runs;
  }

  const Options& options_;
  std::vector<BatchShape> shapes_;
  ProgressLine progress_;
  std::shared_ptr<engine::ThreadPool> pool_;
  std::vector<BenchModel> models_;
};

}  // namespace

int bench(const Options& options) {
  const ordered_json result = Bench(options).run();
  std::cout << result.dump(2) << '\n';
  return EXIT_SUCCESS;
}

}  // namespace espalier::commands
