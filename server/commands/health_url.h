// Which address `espalier health` asks.
//
// Thread contract: none needed.
#pragma once

#include "hub/url.h"
#include "server/commands/options.h"

namespace espalier::commands {

/// The probe at --url; without that the one of the server that `options` would start, on loopback
/// if that server listens on all addresses. Throws std::runtime_error, which names the option, if
/// no address follows from them.
hub::Url health_url(const Options& options);

}  // namespace espalier::commands
