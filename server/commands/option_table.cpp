#include "server/commands/option_table.h"

#include <cctype>

namespace espalier::commands {

std::string environment_name(const std::string& option) {
  std::string name = "ESPALIER_";
  for (const char c : option) {
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name;
}

OptionTable::OptionTable(Options& options, const std::function<std::string()>& version_text)
    : o_(options) {
  app_.require_subcommand(0, 1);
  app_.fallthrough(false);
  app_.set_version_flag("--version", version_text, "Print version, commit and kernels, then exit");
  app_.footer(
      "Every option can also be set in a TOML file (--config FILE, key as the option's name) or "
      "by the\n"
      "environment variable that its help names; flags win over environment over file over "
      "defaults.\n"
      "ESPALIER_ISA=amx|avx512bf16|avx512vnni|avx512|avx2|scalar caps the CPU instructions that "
      "are\n"
      "used.\n\n"
      "Examples:\n"
      "  espalier serve --port 8080\n"
      "  espalier serve --model Qwen/Qwen3-Embedding-0.6B\n"
      "  echo '{\"text\": \"hello\"}' | espalier embed --prompt-name query\n"
      "  echo '{\"text\": \"a big cat\"}' | espalier rerank --query 'what is a tiger'\n"
      "  espalier bench --batch 32 --prefix 512 --suffix 64,256 --dtype bf16,int8\n"
      "`espalier COMMAND --help` explains the options of a command.");
  add_serve();
  add_embed();
  add_rerank();
  add_tokenize();
  add_inspect();
  add_bench();
  add_download();
  add_models();
  add_health();
}

CLI::App* OptionTable::chosen() const {
  const auto subcommands = app_.get_subcommands();
  return subcommands.empty() ? nullptr : subcommands.front();
}

std::set<std::string> OptionTable::names() const {
  std::set<std::string> names;
  for (const auto& [sub, table] : tables_)
    for (const auto& [name, option] : table) names.insert(name);
  names.erase("config");
  return names;
}

CLI::App* OptionTable::bare_subcommand(Command command, const std::string& name,
                                       const std::string& description) {
  CLI::App* sub = app_.add_subcommand(name, description);
  commands_[sub] = command;
  option(sub, "config", o_.config,
         "TOML file with these options as keys (max-batch-tokens = 4096)");
  return sub;
}

CLI::App* OptionTable::subcommand(Command command, const std::string& name,
                                  const std::string& description) {
  CLI::App* sub = bare_subcommand(command, name, description);
  list(sub, "model", o_.models,
       "Model: ORG/NAME[@REVISION] on Hugging Face, fetched once and kept in the cache that its "
       "tools share (ORG/NAME:Q8_0 for one of its GGUF files), a GGUF file, or a folder with "
       "config.json, tokenizer.json and model.safetensors; NAME=MODEL gives it a name; serve takes "
       "several; "
       "without it, the bundled espalier-mini");
  option(sub, "log-level", o_.log_level,
         "Least severe messages on stderr: debug, info, warn, error")
      ->check(CLI::IsMember({"debug", "info", "warn", "error"}));
  option(sub, "log-format", o_.log_format,
         "Lines on stderr: text for people, or json, one object a line")
      ->check(CLI::IsMember({"text", "json"}));
  return sub;
}

template <typename T>
CLI::Option* OptionTable::option(CLI::App* sub, const std::string& name, T& value,
                                 const std::string& description) {
  CLI::Option* added = sub->add_option(
      "--" + name, value, description + " [environment: " + environment_name(name) + "]");
  // An empty default says nothing; its meaning is in the description.
  if constexpr (std::is_same_v<T, std::string>) {
    if (!value.empty()) added->capture_default_str();
  } else {
    added->capture_default_str();
  }
  tables_[sub][name] = added;
  return added;
}

/// An option that may be given several times; environment and file separate by commas.
void OptionTable::list(CLI::App* sub, const std::string& name, std::vector<std::string>& values,
                       const std::string& description) {
  tables_[sub][name] =
      sub->add_option("--" + name, values,
                      description + " [environment, by commas: " + environment_name(name) + "]")
          ->delimiter(',')
          ->allow_extra_args(false);
}

/// An option of one model, see model_options.h.
void OptionTable::per_model(CLI::App* sub, const std::string& name,
                            std::vector<std::string>& values, const std::string& description) {
  list(sub, name, values, description + "; with several models NAME=VALUE for each that gets one");
}

void OptionTable::flag(CLI::App* sub, const std::string& name, bool& value,
                       const std::string& description) {
  tables_[sub][name] = sub->add_flag(
      "--" + name, value, description + " [environment: " + environment_name(name) + "]");
}

void OptionTable::add_compute_options(CLI::App* sub) {
  option(
      sub, "gemm", o_.gemm,
      "Who multiplies matrices: native (our kernels: the same bits whatever else is in a batch), "
      "onednn, openblas (f32 alone), or auto: native")
      ->check(CLI::IsMember({"auto", "native", "onednn", "openblas"}));
  option(sub, "threads", o_.threads,
         "Compute threads; 0: as many as the CPUs that the process may use")
      ->check(CLI::Range(size_t{0}, size_t{1024}));
}

void OptionTable::add_engine_options(CLI::App* sub) {
  option(sub, "dtype", o_.dtype,
         "Number format of the matrix products: f32 (exact), bf16, int8 (half the memory of bf16), "
         "or auto: bf16 if the CPU multiplies it, else f32")
      ->check(CLI::IsMember({"auto", "f32", "bf16", "int8"}));
  add_compute_options(sub);
  option(sub, "dedup", o_.dedup,
         "Shared prefixes are computed once (trie), once but for attention (radixmlp), or every "
         "time (off)")
      ->check(CLI::IsMember({"trie", "radixmlp", "off"}));
  option(sub, "max-batch-tokens", o_.max_batch_tokens,
         "Rows that one batch computes at most: distinct prefixes, or all tokens with --dedup off")
      ->check(CLI::Range(size_t{1}, size_t{1} << 20U));
  option(sub, "max-workspace-mb", o_.max_workspace_mb,
         "MiB that a batch's activations take at most: fewer rows than --max-batch-tokens if they "
         "need more; an input that is longer still runs, alone. 0: no such limit")
      ->check(CLI::Range(size_t{0}, size_t{1} << 20U));
  per_model(
      sub, "lora", o_.lora_adapters,
      "Folder of a LoRA adapter as PEFT saves it, added to the model's weights at load, or the "
      "name of one that the model brings in adapters/; several are added up");
  option(sub, "memory-check", o_.memory_check,
         "What happens when the memory that the models will need is more than the control group or "
         "the machine has: on (they are not loaded), warn, off")
      ->check(CLI::IsMember({"on", "warn", "off"}));
  option(sub, "max-input-tokens", o_.max_input_tokens,
         "Tokens of one input at most; 0: the model's maximum, but no more than 8192")
      ->check(CLI::Range(size_t{0}, size_t{1} << 20U));
}

void OptionTable::add_head_options(CLI::App* sub) {
  per_model(sub, "pooling", o_.poolings,
            "What of a text its embedding is made of: its last token, the mean of all, or its "
            "first (last, mean, first); none: what the model's files say, or last");
  per_model(sub, "rerank-template", o_.rerank_templates,
            "What a reranker is asked: a text file with {query}, {document} and perhaps "
            "{instruction}, a .jinja file, or qwen3-reranker, mxbai-rerank-v2, zerank-2; none: the "
            "model's own, or that of its family");
  per_model(sub, "rerank-tokens", o_.rerank_tokens,
            "Tokens whose logits are the score, TRUE/FALSE or TRUE alone (yes/no); none: what the "
            "model's files say, or those of the template");
  flag(sub, "rerank-by-similarity", o_.rerank_by_similarity,
       "Let embedding models, which cannot rerank, rank by the cosine of their embeddings of query "
       "and document");
}

void OptionTable::add_serve() {
  CLI::App* sub = subcommand(Command::kServe, "serve", "Run the HTTP server");
  add_listening_options(sub);
  add_engine_options(sub);
  add_head_options(sub);
  per_model(
      sub, "default-prompt-name", o_.default_prompt_names,
      "Prompt of the model to put before texts of requests that name none (`espalier inspect` "
      "lists them); none: the model's own default, usually none");
  add_transport_options(sub);
  list(sub, "api-key", o_.api_keys,
       "Serve only requests with `Authorization: Bearer KEY`; may be given several times. Other "
       "users of the machine can see it in the list of processes: rather set the environment "
       "variable (commas between keys), or --api-key-file, where keys have names. None: serve "
       "everyone");
  list(sub, "admin-key", o_.admin_keys, "The same for one who may also see --debug-endpoints");
  option(sub, "api-key-file", o_.api_key_file,
         "File of such keys, lines of `NAME KEY [WEIGHT] [admin]`; each key gets its fair share of "
         "the machine by weight (1)");
  flag(sub, "share-across-keys", o_.share_across_keys,
       "Let requests with different API keys share the computing of common prefixes; without it "
       "no key's timing depends on what another one sends alike");
  add_overload_options(sub);
  option(sub, "http-threads", o_.http_threads,
         "Requests that are read, awaited and answered at once")
      ->check(CLI::Range(size_t{1}, size_t{4096}));
  option(sub, "tokenizer-threads", o_.tokenizer_threads,
         "Threads that tokenize, at a lower priority than computing; 0: a quarter of the CPUs "
         "that the process may use")
      ->check(CLI::Range(size_t{0}, size_t{1024}));
  option(sub, "max-body-mb", o_.max_body_mb, "Largest request body in MiB, after decompression")
      ->check(CLI::Range(size_t{1}, size_t{1024}));
  option(sub, "max-request-inputs", o_.max_request_inputs,
         "Inputs or documents of one request at most; more are answered 400")
      ->check(CLI::Range(size_t{1}, size_t{1} << 20U));
  option(sub, "max-request-tokens", o_.max_request_tokens,
         "Tokens of all inputs of one request at most; more are answered 400. 0: whatever fits "
         "the queue")
      ->check(CLI::Range(size_t{0}, size_t{1} << 32U));
  option(sub, "max-header-kb", o_.max_header_kb,
         "Largest request line and header fields together, in KiB; larger ones are answered 431")
      ->check(CLI::Range(size_t{1}, size_t{1024}));
  option(sub, "request-timeout", o_.request_timeout,
         "Seconds until a waiting request is answered 504; 0: three times what is predicted when "
         "it comes, at least 60 (300 before anything was measured)")
      ->check(CLI::Range(size_t{0}, size_t{86400}));
  flag(sub, "debug-endpoints", o_.debug_endpoints,
       "Serve GET /debug/timeline, /debug/trie and /debug/trie.svg: when the last batches ran and "
       "what the last one shared, in numbers; with keys, to an admin's alone");
  flag(sub, "no-page", o_.no_page,
       "Serve neither the web page at GET / nor the API's description at GET /docs");
  option(
      sub, "drain-timeout", o_.drain_timeout,
      "Seconds that accepted requests get to finish after SIGTERM; the rest is answered 503, and "
      "who still sends or reads is cut off")
      ->check(CLI::Range(size_t{0}, size_t{86400}));
  option(sub, "access-log", o_.access_log,
         "on: a log line for each request, never its texts; probes' at level debug. off: none")
      ->check(CLI::IsMember({"on", "off"}));
}

/// What says where a server can be asked: serve takes it, and health finds the server by it.
void OptionTable::add_listening_options(CLI::App* sub) {
  option(sub, "host", o_.host, "Address to listen on; 0.0.0.0 for all interfaces");
  option(sub, "port", o_.port, "TCP port to listen on; 0: any free one")
      ->check(CLI::Range(0, 65535));
  option(sub, "admin-port", o_.admin_port,
         "TCP port for /livez, /readyz, /health and /metrics, which are gone from --port then, and "
         "for /debug/* without a key; it has no TLS. 0: none")
      ->check(CLI::Range(0, 65535));
  option(sub, "admin-host", o_.admin_host, "Address for --admin-port; none: that of --host");
  option(sub, "tls-cert", o_.tls_cert,
         "PEM file of the server's certificate and those between it and the CA: serve HTTPS "
         "(TLS 1.2 and 1.3); SIGHUP reads it again. Needs --tls-key");
}

void OptionTable::add_transport_options(CLI::App* sub) {
  option(sub, "tls-key", o_.tls_key, "PEM file of the certificate's private key");
  list(sub, "cors-origin", o_.cors_origins,
       "Origin whose web pages may use the API from a browser (https://app.example.com), or * "
       "for all; may be given several times. None: no page may");
  list(sub, "trusted-proxy", o_.trusted_proxies,
       "IP address or network (10.0.0.0/8) of a proxy that names its clients in X-Forwarded-For, "
       "for fair shares and the log; `private` for loopback, link-local and private networks; may "
       "be given several times. None: whoever connects is the client");
}

/// How much may wait, and what a batch takes of it.
void OptionTable::add_overload_options(CLI::App* sub) {
  option(sub, "max-queue", o_.max_queue,
         "Inputs that may wait, the last eighth for clients that send little; a request beyond "
         "it is answered 429, one with more inputs 400")
      ->check(CLI::Range(size_t{1}, size_t{1} << 24U));
  option(sub, "max-queue-tokens", o_.max_queue_tokens,
         "Tokens of the inputs that may wait; a request beyond it is answered 429, one with more "
         "tokens 400")
      ->check(CLI::Range(size_t{1}, size_t{1} << 32U));
  option(sub, "max-batch-inputs", o_.max_batch_inputs,
         "Inputs of one batch at most; the same text again comes on top, it costs nothing")
      ->check(CLI::Range(size_t{1}, size_t{1} << 20U));
  option(sub, "max-batch-ms", o_.max_batch_ms,
         "Milliseconds that one batch may take, as predicted from those before; four times that "
         "with inputs that share most of their tokens, any time for one long input alone. Less "
         "answers short requests sooner, more shares more")
      ->check(CLI::Range(size_t{1}, size_t{3600000}));
  option(sub, "batch-window-ms", o_.batch_window_ms,
         "Milliseconds that an idle server waits for more inputs before it computes the first "
         "ones; 0: none, what comes meanwhile goes into the next batch")
      ->check(CLI::Range(size_t{0}, size_t{10000}));
}

void OptionTable::add_embed() {
  CLI::App* sub = subcommand(
      Command::kEmbed, "embed",
      "Embed stdin, one {\"text\": …} a line, to stdout, one {\"embedding\": […]} a line");
  option(sub, "prompt-name", o_.prompt_name,
         "Prompt of the model to put before each text (`espalier inspect` lists them); none: the "
         "text alone");
  option(sub, "instruction", o_.instruction,
         "Task in a sentence; each text becomes `Instruct: {instruction}\\nQuery:{text}`");
  option(sub, "dimensions", o_.dimensions, "Leading dimensions to keep before normalising; 0: all");
  add_engine_options(sub);
  add_head_options(sub);
}

void OptionTable::add_rerank() {
  CLI::App* sub = subcommand(Command::kRerank, "rerank",
                             "Score stdin, one {\"text\": …} a line, against a query: "
                             "{\"index\", \"score\"} a line, best first");
  option(sub, "query", o_.query, "The query (required)");
  option(sub, "instruction", o_.instruction, "What makes a document relevant; none: web search's");
  add_engine_options(sub);
  add_head_options(sub);
}

void OptionTable::add_tokenize() {
  CLI::App* sub =
      subcommand(Command::kTokenize, "tokenize",
                 "Tokenize stdin, one {\"text\": …} a line, to stdout, one {\"ids\": […]} a line");
  flag(sub, "add-special-tokens", o_.add_special_tokens,
       "Add what the tokenizer's post-processor adds, such as the end token");
}

void OptionTable::add_inspect() {
  CLI::App* sub =
      subcommand(Command::kInspect, "inspect",
                 "Show a model: architecture, sizes, prompts, kernels, memory it will take");
  add_engine_options(sub);
  add_head_options(sub);
}

void OptionTable::add_bench() {
  CLI::App* sub = subcommand(
      Command::kBench, "bench",
      "Time forward passes on synthetic batches, without HTTP; JSON to stdout. Options that are "
      "lists (1,2,3) make a grid");
  option(sub, "batch", o_.bench_batches, "Sequences of a batch (list)");
  option(sub, "prefix", o_.bench_prefixes, "Tokens that all sequences of a batch share (list)");
  option(sub, "suffix", o_.bench_suffixes, "Tokens of its own that each sequence has (list)");
  option(sub, "dtype", o_.bench_dtypes, "Number formats: auto, f32, bf16, int8 (list)");
  option(sub, "dedup", o_.bench_dedups,
         "trie, radixmlp, off (list); timed in turn, so that their ratios hold");
  option(sub, "repeat", o_.repeat, "Timed passes of each run")
      ->check(CLI::Range(size_t{1}, size_t{1000}));
  add_compute_options(sub);
}

void OptionTable::add_download() {
  CLI::App* sub = subcommand(
      Command::kDownload, "download",
      "Fetch models from Hugging Face into the cache, and print the folders that they are in");
  sub->add_option("MODEL", o_.downloads,
                  "ORG/NAME, ORG/NAME@REVISION (branch, tag or commit), or ORG/NAME:Q8_0 for one "
                  "GGUF file; none: those of --model");
  sub->footer(
      "Only what the server reads is fetched: configuration, tokenizer, safetensors or one GGUF\n"
      "file. Sizes and hashes are checked; after a break the next attempt goes on where the last\n"
      "one ended. What is there already costs one small request.\n\n"
      "Environment, as of Hugging Face's own tools:\n"
      "  HF_TOKEN         for private and gated models (or the file that `hf auth login` leaves)\n"
      "  HF_HUB_CACHE     the cache folder; else HF_HOME/hub, else ~/.cache/huggingface/hub\n"
      "  HF_ENDPOINT      another hub than https://huggingface.co\n"
      "  HF_HUB_OFFLINE   1: no requests; what is in the cache is used\n"
      "  HTTPS_PROXY, NO_PROXY, SSL_CERT_FILE   the way to the hub, and whom to trust\n\n"
      "Examples:\n"
      "  espalier download Qwen/Qwen3-Embedding-0.6B Qwen/Qwen3-Reranker-0.6B\n"
      "  espalier download Qwen/Qwen3-Embedding-0.6B-GGUF:Q8_0");
}

void OptionTable::add_models() {
  CLI::App* sub = subcommand(
      Command::kModels, "models",
      "List the models in the cache: revision, commit, size, and whether they are complete");
  flag(sub, "json", o_.json, "As JSON, with whole commits and sizes in bytes");
  sub->footer(
      "The cache is HF_HUB_CACHE, else HF_HOME/hub, else ~/.cache/huggingface/hub. Other tools\n"
      "that use it may have left models that this server cannot load: `espalier inspect --model\n"
      "ORG/NAME` tells. A model is removed by deleting its folder models--ORG--NAME.");
}

void OptionTable::add_health() {
  CLI::App* sub = bare_subcommand(
      Command::kHealth, "health",
      "Ask a running server whether it is ready: exit code 0 if it is, else 1, and a line that "
      "says what was found");
  sub->add_option("--url", o_.health_url,
                  "Server to ask, http(s)://HOST[:PORT], or the whole address of its probe; none: "
                  "the one that the options below start");
  sub->add_flag("--live", o_.health_live,
                "Ask /livez, whether the process is well, instead of /readyz, which also says no "
                "while models are loaded and after SIGTERM");
  sub->add_option("--timeout", o_.health_timeout, "Seconds that all of it may take")
      ->capture_default_str()
      ->check(CLI::Range(size_t{1}, size_t{3600}));
  add_listening_options(sub);
  sub->footer(
      "Without --url it reads what `espalier serve` reads, environment and --config included, and\n"
      "asks the admin port if there is one, else the port; 0.0.0.0 and :: are asked as loopback.\n"
      "Flags that `serve` was given are not known here: give the same, or rather set variables or "
      "a\n"
      "file, which both read. No proxy is asked.\n\n"
      "The certificate of its own server (--tls-cert) is not checked: it is made out to the name\n"
      "that clients use, not to a loopback address. Behind --url https://… it is.\n\n"
      "Examples:\n"
      "  espalier health\n"
      "  ESPALIER_ADMIN_PORT=9090 espalier health --timeout 2\n"
      "  espalier health --url https://embeddings.example.com\n"
      "  HEALTHCHECK CMD [\"espalier\", \"health\"]      (in a Dockerfile)\n"
      "Kubernetes' probes ask /readyz and /livez themselves, by httpGet.");
}

}  // namespace espalier::commands
