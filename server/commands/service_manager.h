// What the service manager that started this process hears of it: sd_notify(3)'s datagrams to the
// socket that NOTIFY_SOCKET names. They are few and plain, so that libsystemd is not needed.
#pragma once

#include <string>

namespace espalier::commands {

/// Whether a service manager listens (a systemd unit of Type=notify).
bool has_service_manager();

/// Sends lines of `NAME=VALUE`: READY=1, STOPPING=1, STATUS=for `systemctl status`. Without a
/// service manager it does nothing; what cannot be sent is logged, and the server goes on.
void tell_service_manager(const std::string& lines);

}  // namespace espalier::commands
