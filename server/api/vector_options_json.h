// The fields that say how long an embedding is and whether it is normalised, under the names that
// the peers' clients use; the same on all routes.
//
// Thread contract: functions without state.
#pragma once

#include <array>
#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>

#include "server/api_error.h"

namespace espalier::server {

/// Members of a body that parse_vector_options() reads.
inline constexpr std::array<std::string_view, 6> kVectorOptionMembers{
    "dimensions", "output_dimension", "normalize",
    "normalized", "use_activation",   "embd_normalize"};

struct VectorOptions {
  std::optional<size_t> dimensions;             // 1 or more
  const char* dimensions_field = "dimensions";  // that holds them
  std::optional<bool> normalize;
};

/// Errors name the field: one of a wrong type or value, or one that contradicts another.
Result<VectorOptions> parse_vector_options(const nlohmann::json& object);

}  // namespace espalier::server
