// The command line: one table of options, each also a key of the TOML file and an environment
// variable.
//
//   --max-batch-tokens 512   >   ESPALIER_MAX_BATCH_TOKENS=512   >   max-batch-tokens = 512   >
//   default
//
// CLI11 parses flags alone; environment and file are merged here, explicitly, because CLI11 2.1
// lets a file win over the environment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace espalier::commands {

enum class Command : uint8_t {
  kServe,
  kEmbed,
  kRerank,
  kTokenize,
  kInspect,
  kBench,
  kDownload,
  kModels,
  kHealth
};

struct Options {
  std::string config;               // TOML file; empty: none
  std::vector<std::string> models;  // [NAME=]folder or name on a hub; none: the bundled model
  std::string dtype = "auto";
  std::string gemm = "auto";
  std::string dedup = "trie";
  std::string log_level = "info";
  std::string log_format = "text";
  std::vector<std::string> lora_adapters;  // [NAME=]FOLDER, see model_options.h
  std::string memory_check = "on";
  size_t threads = 0;  // 0: the CPUs that the process may use
  size_t max_batch_tokens = 4096;
  size_t max_workspace_mb = 0;  // 0: what max_batch_tokens rows need
  size_t max_input_tokens = 0;  // 0: the model's, at most 8 192

  // of each model, [NAME=]VALUE: see model_options.h
  std::vector<std::string> poolings;
  std::vector<std::string> rerank_templates;
  std::vector<std::string> rerank_tokens;
  bool rerank_by_similarity = false;

  // serve
  std::vector<std::string> default_prompt_names;  // [NAME=]PROMPT, see model_options.h
  std::vector<std::string> api_keys;              // none of these three: everyone is served
  std::vector<std::string> admin_keys;
  std::string api_key_file;
  bool share_across_keys = false;
  bool debug_endpoints = false;
  bool no_page = false;
  std::string host = "127.0.0.1";
  uint16_t port = 8080;
  std::string tls_cert;  // empty: plain HTTP
  std::string tls_key;
  uint16_t admin_port = 0;  // 0: probes and metrics are on `port`
  std::string admin_host;   // empty: as `host`
  std::vector<std::string> cors_origins;
  std::vector<std::string> trusted_proxies;
  size_t http_threads = 256;
  size_t tokenizer_threads = 0;  // 0: a quarter of the CPUs that the process may use
  size_t max_body_mb = 32;
  size_t max_request_inputs = 2048;
  size_t max_request_tokens = 0;  // 0: whatever fits the queue
  size_t max_header_kb = 32;
  size_t max_queue = 16384;
  size_t max_queue_tokens = size_t{1} << 21U;
  size_t max_batch_inputs = 4096;
  size_t max_batch_ms = 1000;
  size_t batch_window_ms = 0;
  size_t request_timeout = 0;  // 0: automatic
  size_t drain_timeout = 30;
  std::string access_log = "on";

  // embed, rerank, tokenize
  std::string prompt_name;
  std::string instruction;
  std::string query;
  size_t dimensions = 0;  // 0: all
  bool add_special_tokens = false;

  // download, models
  std::vector<std::string> downloads;  // names on a hub; none: those of --model
  bool json = false;

  // health
  std::string health_url;  // empty: the server that these options would start
  bool health_live = false;
  size_t health_timeout = 5;  // seconds

  // bench: lists, separated by commas
  std::string bench_dtypes = "auto";
  std::string bench_dedups = "trie,radixmlp,off";
  std::string bench_batches = "32";
  std::string bench_prefixes = "512";
  std::string bench_suffixes = "64";
  size_t repeat = 5;
};

/// What the command line asks for: a command with its options, or a text to print and an exit code.
struct CommandLine {
  Command command = Command::kServe;
  Options options;
  std::optional<int> exit_code;  // set: print `text` (stderr unless 0) and exit
  std::string text;
};

/// Looks up an environment variable; null if unset.
using Environment = std::function<const char*(const char* name)>;

/// Parses `arguments` (without the program's name). Never throws for what a user typed; that comes
/// back as exit_code 2 (of health 1) with a text that names the option and where its value came
/// from.
/// `version_text` is asked only for --version.
CommandLine parse_command_line(const std::vector<std::string>& arguments,
                               const Environment& environment,
                               const std::function<std::string()>& version_text);

}  // namespace espalier::commands
