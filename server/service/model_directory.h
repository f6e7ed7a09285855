// The models of one server, and which of them a request is for.
//
// Thread contract: immutable; every member may be called from many threads at once.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "server/service/inference_service.h"

namespace espalier::server {

/// What a request wants done.
enum class ModelJob : uint8_t {
  kEmbed,
  kRerank,    // or score
  kTokenize,  // or decode: any model can; unless it is named, the one that embeds
};

class ModelDirectory {
 public:
  /// At least one, of different names; all must outlive the directory. Throws std::runtime_error
  /// for two of one name.
  explicit ModelDirectory(std::vector<const InferenceService*> services);

  /// The model that `asked`, the request's `model`, names: as in answers, by another of its names,
  /// or, if that says which, by what stands behind the last slash of either ("Qwen/x", "openai/x"
  /// and "x" are the same). If it names none, or is empty: the only one that can do the job, or
  /// else the only one that was made for it. A server of one model takes that, whatever is asked
  /// for.
  ///
  /// kInvalidRequest, naming those that can, if the model that is named cannot do it, or if none
  /// can; kModelNotFound, naming what there is, if several could.
  Result<const InferenceService*> choose(std::string_view asked, ModelJob job) const;

  /// The model of that name, by the rules of choose(); null if there is none.
  const InferenceService* find(std::string_view name) const;

  /// In the order in which they were given.
  const std::vector<const InferenceService*>& services() const { return services_; }
  const InferenceService& first() const { return *services_.front(); }
  bool has_several() const { return services_.size() > 1; }

 private:
  std::vector<const InferenceService*> services_;
};

/// kModelNotFound for a name that no model here has; `names` says what there is.
ApiError model_not_found(std::string_view asked, std::string_view names);
/// "`a`, `b` and `c`".
std::string model_names(const std::vector<const InferenceService*>& services);

}  // namespace espalier::server
