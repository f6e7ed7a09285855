// The words by which metrics and traces name why a batch closed.
//
// Thread contract: functions without state.
#pragma once

#include "scheduler/scheduler.h"

namespace espalier::server {

/// "queue_empty", "rows", "sequences" or "seconds".
const char* name_of(scheduler::BatchClosed closed);

}  // namespace espalier::server
