// White space at the ends of a text, as Python's str.strip() sees it.
//
// Thread contract: pure functions.
#pragma once

#include <string_view>

namespace espalier::text {

/// `utf8` without the white space around it.
std::string_view trim(std::string_view utf8);
std::string_view trim_left(std::string_view utf8);
std::string_view trim_right(std::string_view utf8);

}  // namespace espalier::text
