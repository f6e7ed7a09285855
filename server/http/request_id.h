// Names of requests, by which a client, a proxy and this server's log speak of the same one.
//
// Thread contract: any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace espalier::server {

/// Whether a name that a client sent may be taken over: 1 to 128 visible ASCII characters without
/// quotes and backslashes, so that it can do no harm in a log or a header field.
bool is_sound_request_id(std::string_view id);

/// 32 hexadecimal digits, unlike every other id of this process and, most likely, of any other.
std::string new_request_id();

}  // namespace espalier::server
