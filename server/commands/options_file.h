// A TOML file of options.
#pragma once

#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace espalier::commands {

/// A mistake in what the user typed, set or wrote; the message is complete.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The keys of `file` with their values as text, an array's one by one. Throws UsageError, with
/// file and line, for what is no TOML, and for keys that are not among `known` or hold anything but
/// strings, numbers and booleans.
std::map<std::string, std::vector<std::string>> read_options_file(
    const std::string& file, const std::set<std::string>& known);

}  // namespace espalier::commands
