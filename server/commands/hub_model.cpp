#include "server/commands/hub_model.h"

#include <cstdlib>

#include "hub/environment.h"
#include "hub/fetch.h"
#include "hub/hub_error.h"
#include "hub/model_reference.h"
#include "server/commands/download_progress.h"
#include "server/commands/interrupt_flag.h"

namespace espalier::commands {

bool is_hub_name(const std::string& location) {
  // "models/missing.gguf" is a file that is not there; "org/name:file.gguf" may be one on a hub.
  const bool is_file_name = location.ends_with(".gguf") || location.ends_with(".safetensors");
  return hub::looks_like_reference(location) &&
         (!is_file_name || location.find(':') != std::string::npos);
}

HubModel fetch_hub_model(const std::string& name) {
  const InterruptFlag interrupt;
  DownloadProgress progress;
  hub::FetchEvents events;
  events.progress = [&](const hub::FileProgress& file) { progress.update(file); };
  events.warning = [&](const std::string& message) { progress.warn(message); };
  events.cancelled = [&] { return interrupt.is_set(); };
  try {
    const auto reference = hub::parse_reference(name);
    const auto environment =
        hub::read_environment([](const char* variable) { return std::getenv(variable); });
    return {hub::fetch(reference, environment, events), reference.repository};
  } catch (const hub::Cancelled&) {
    throw;
  } catch (const hub::HubError& error) {
    throw std::runtime_error("model " + name +
                             ", which is no folder here, but a name on the hub: " + error.what());
  }
}

}  // namespace espalier::commands
