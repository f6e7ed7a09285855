// A model by its name: from the cache, or from the hub into it.
//
// Thread contract: one thread; any number of processes.
#pragma once

#include <filesystem>

#include "hub/environment.h"
#include "hub/fetch_events.h"
#include "hub/model_reference.h"

namespace espalier::hub {

/// The folder of the model's snapshot in the cache, complete, or its GGUF file there.
///
/// The hub is asked which commit the revision is, once, and for what the snapshot lacks. It is not
/// asked at all when offline, or for a commit whose snapshot is complete. If it does not answer, a
/// complete snapshot of the revision is used, with a warning. Throws HubError and what derives
/// from it.
std::filesystem::path fetch(const ModelReference& model, const Environment& environment,
                            const FetchEvents& events);

}  // namespace espalier::hub
