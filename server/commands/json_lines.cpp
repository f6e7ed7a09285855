#include "server/commands/json_lines.h"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace espalier::commands {
namespace {

template <typename T>
void append_number(std::string& text, T value) {
  std::array<char, 32> digits{};
  text.append(digits.data(),
              std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr);
}

template <typename T>
std::string array_text(std::span<const T> values) {
  std::string text = "[";
  for (const T value : values) {
    if (text.size() > 1) text += ',';
    append_number(text, value);
  }
  return text += ']';
}

}  // namespace

bool TextLines::ready() const {
  if (in_.rdbuf()->in_avail() > 0) return true;
  pollfd input{STDIN_FILENO, POLLIN, 0};
  return poll(&input, 1, 0) > 0;
}

std::optional<std::string> TextLines::next() {
  std::string line;
  while (std::getline(in_, line)) {
    ++line_;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (json.is_object()) {
      const auto text = json.find("text");
      if (text != json.end() && text->is_string()) return text->get<std::string>();
    }
    throw std::runtime_error(
        "stdin, line " + std::to_string(line_) +
        ": expected a JSON object with a string `text`, such as {\"text\": \"hello\"}");
  }
  return std::nullopt;
}

std::string float_text(float value) {
  std::string text;
  append_number(text, value);
  return text;
}
std::string float_array_text(std::span<const float> values) { return array_text(values); }
std::string id_array_text(std::span<const uint32_t> ids) { return array_text(ids); }

}  // namespace espalier::commands
