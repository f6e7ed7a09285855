#include "server/commands/score_template_files.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <array>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>
#include <vector>

#include "models/json_file.h"
#include "text/score_template_jinja.h"

namespace espalier::commands {
namespace {

namespace fs = std::filesystem;

constexpr size_t kTemplateBytesMax = size_t{1} << 20U;
constexpr size_t kConfigBytesMax = size_t{16} << 20U;

/// The bytes of a regular file; nothing if there is none, or it has more than `most`.
std::optional<std::string> read_file(const fs::path& file, size_t most) {
  std::error_code error;
  if (!fs::is_regular_file(file, error) || fs::file_size(file, error) > most || error) {
    return std::nullopt;
  }
  std::ifstream stream(file, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(stream), {}};
  if (!stream && !stream.eof()) return std::nullopt;
  return bytes;
}

struct NamedSource {
  std::string name;
  std::string source;
};

/// `chat_template`: a string, or several, each with a name.
std::vector<NamedSource> templates_of_config(const fs::path& file) {
  const auto bytes = read_file(file, kConfigBytesMax);
  if (!bytes) return {};
  nlohmann::json config;
  try {
    config = models::parse_json(*bytes, file.string());
  } catch (const std::runtime_error& error) {
    spdlog::warn("{}; no rerank template is taken from it", error.what());
  }
  if (!config.is_object() || !config.contains("chat_template")) return {};
  const std::string name = file.string() + ": chat_template";
  const nlohmann::json& entry = config["chat_template"];
  if (entry.is_string()) return {{name, entry.get<std::string>()}};
  std::vector<NamedSource> found;
  if (!entry.is_array()) return {};
  for (const nlohmann::json& each : entry) {
    const bool complete = each.is_object() && each.contains("name") && each["name"].is_string() &&
                          each.contains("template") && each["template"].is_string();
    if (complete) {
      found.push_back(
          {name + " " + models::excerpt(each["name"]), each["template"].get<std::string>()});
    }
  }
  return found;
}

}  // namespace

text::RerankTemplate named_template(const std::string& name_or_file) {
  try {
    if (auto known = text::known_template(name_or_file)) return std::move(*known);
    const auto source = read_file(name_or_file, kTemplateBytesMax);
    if (!source) {
      throw std::runtime_error(
          "is neither a readable file of at most 1 MiB nor one of qwen3-reranker, "
          "mxbai-rerank-v2, zerank-2");
    }
    if (name_or_file.ends_with(".jinja")) return text::parse_score_template(*source, name_or_file);
    return text::parse_plain_template(*source, name_or_file);
  } catch (const std::runtime_error& error) {
    throw std::runtime_error("--rerank-template " + name_or_file + ": " + error.what());
  }
}

std::optional<text::RerankTemplate> models_own_template(const fs::path& folder) {
  std::vector<NamedSource> candidates;
  for (const char* name : {"additional_chat_templates/reranker.jinja", "chat_template.jinja"}) {
    if (auto source = read_file(folder / name, kTemplateBytesMax)) {
      candidates.push_back({(folder / name).string(), std::move(*source)});
    }
  }
  for (NamedSource& each : templates_of_config(folder / "tokenizer_config.json")) {
    candidates.push_back(std::move(each));
  }
  for (const auto& [name, source] : candidates) {
    if (!text::is_score_template(source)) continue;
    try {
      return text::parse_score_template(source, name);
    } catch (const std::runtime_error& error) {
      spdlog::warn("{}; without --rerank-template that of the model's family is used",
                   error.what());
    }
  }
  return std::nullopt;
}

}  // namespace espalier::commands
