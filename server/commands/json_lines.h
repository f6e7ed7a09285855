// One JSON object a line: what the commands read from stdin and write to stdout.
#pragma once

#include <cstddef>
#include <cstdint>
#include <istream>
#include <optional>
#include <span>
#include <string>

namespace espalier::commands {

/// Reads {"text": …} lines from stdin; blank lines are skipped, other keys ignored.
class TextLines {
 public:
  explicit TextLines(std::istream& in) : in_(in) {}
  /// True if next() need not wait: more input, or its end, is there already. A program that writes
  /// a line and waits for its answer is served at once, while a file is read in large pieces.
  bool ready() const;
  /// The next text, or nothing at the end. Throws std::runtime_error naming the line for anything
  /// else.
  std::optional<std::string> next();

 private:
  std::istream& in_;
  size_t line_ = 0;
};

/// The fewest digits that read back as the same float.
std::string float_text(float value);
/// "[0.25,-1]", each as float_text().
std::string float_array_text(std::span<const float> values);
/// "[1,2,3]"
std::string id_array_text(std::span<const uint32_t> ids);

}  // namespace espalier::commands
