// The header fields of a request.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace espalier::server {

class HeaderFields {
 public:
  /// `name` in lower case.
  void add(std::string name, std::string value) {
    fields_.emplace_back(std::move(name), std::move(value));
  }
  /// The first value of `name` (lower case), without the blanks around it; null if it was not sent.
  const std::string* find(std::string_view name) const {
    const auto found =
        std::ranges::find(fields_, name, &std::pair<std::string, std::string>::first);
    return found == fields_.end() ? nullptr : &found->second;
  }
  /// All values of `name` (lower case), in the order in which they were sent; valid as long as the
  /// fields do not change.
  std::vector<std::string_view> find_all(std::string_view name) const {
    std::vector<std::string_view> values;
    for (const auto& [field, value] : fields_)
      if (field == name) values.emplace_back(value);
    return values;
  }

 private:
  std::vector<std::pair<std::string, std::string>> fields_;
};

}  // namespace espalier::server
