#include "server/commands/options_file.h"

#include <toml++/toml.h>

namespace espalier::commands {
namespace {

std::string listed(const std::set<std::string>& names) {
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

std::string scalar_text(const std::string& file, const std::string& name, const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return std::to_string(number->get());
  if (const auto* flag = node.as_boolean()) return flag->get() ? "true" : "false";
  throw UsageError(file + ": `" + name +
                   "` must be a string, an integer, true or false, or an array of them");
}

}  // namespace

std::map<std::string, std::vector<std::string>> read_options_file(
    const std::string& file, const std::set<std::string>& known) {
  toml::table table;
  try {
    table = toml::parse_file(file);
  } catch (const toml::parse_error& error) {
    const auto& begin = error.source().begin;
    throw UsageError(file + (begin.line > 0 ? ", line " + std::to_string(begin.line) : "") + ": " +
                     std::string(error.description()));
  }
  std::map<std::string, std::vector<std::string>> values;
  for (const auto& [key, node] : table) {
    const std::string name(key.str());
    if (!known.contains(name)) {
      throw UsageError(file + ": unknown key `" + name +
                       "`; the keys are the options' names: " + listed(known));
    }
    std::vector<std::string>& texts = values[name];
    if (const auto* array = node.as_array()) {
      for (const toml::node& element : *array) texts.push_back(scalar_text(file, name, element));
    } else {
      texts.push_back(scalar_text(file, name, node));
    }
  }
  return values;
}

}  // namespace espalier::commands
