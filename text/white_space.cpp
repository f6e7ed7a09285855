#include "text/white_space.h"

#include <algorithm>
#include <array>

namespace espalier::text {
namespace {

// Unicode's, and the four separators of ASCII.
constexpr std::array<std::string_view, 29> kWhiteSpace = {
    "\t",     "\n",     "\v",     "\f",     "\r",     "\x1c",   "\x1d",   "\x1e",
    "\x1f",   " ",      "\u0085", "\u00a0", "\u1680", "\u2000", "\u2001", "\u2002",
    "\u2003", "\u2004", "\u2005", "\u2006", "\u2007", "\u2008", "\u2009", "\u200a",
    "\u2028", "\u2029", "\u202f", "\u205f", "\u3000"};

}  // namespace

std::string_view trim_left(std::string_view utf8) {
  for (;;) {
    const auto* const found =
        std::ranges::find_if(kWhiteSpace, [&](std::string_view c) { return utf8.starts_with(c); });
    if (found == kWhiteSpace.end()) return utf8;
    utf8.remove_prefix(found->size());
  }
}

std::string_view trim_right(std::string_view utf8) {
  for (;;) {
    const auto* const found =
        std::ranges::find_if(kWhiteSpace, [&](std::string_view c) { return utf8.ends_with(c); });
    if (found == kWhiteSpace.end()) return utf8;
    utf8.remove_suffix(found->size());
  }
}

std::string_view trim(std::string_view utf8) { return trim_right(trim_left(utf8)); }

}  // namespace espalier::text
