#include "server/observe/batch_closed_name.h"

namespace espalier::server {

const char* name_of(scheduler::BatchClosed closed) {
  switch (closed) {
    case scheduler::BatchClosed::kQueueEmpty:
      return "queue_empty";
    case scheduler::BatchClosed::kRows:
      return "rows";
    case scheduler::BatchClosed::kSequences:
      return "sequences";
    case scheduler::BatchClosed::kSeconds:
      return "seconds";
  }
  return "unknown";
}

}  // namespace espalier::server
