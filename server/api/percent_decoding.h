// Percent-encoded parts of a path (RFC 3986, section 2.1).
//
// Thread contract: functions without state.
#pragma once

#include <string>
#include <string_view>

namespace espalier::server {

/// `text` with %41 as A; what is no such triplet stays as it is.
std::string percent_decoded(std::string_view text);

}  // namespace espalier::server
