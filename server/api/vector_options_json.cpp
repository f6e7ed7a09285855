#include "server/api/vector_options_json.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "server/api/json_request.h"

namespace espalier::server {
namespace {

using nlohmann::json;

/// llama.cpp's number of a norm: -1 for none, 2 for the Euclidean one; it has others.
Result<std::optional<bool>> parse_norm(const json& object, const char* field) {
  const auto found = object.find(field);
  if (found == object.end() || found->is_null()) return std::nullopt;
  if (*found == json(2)) return true;
  if (*found == json(-1)) return false;
  return tl::unexpected(invalid_param(
      field, "`" + std::string(field) + "` must be 2 (length 1) or -1 (as the model gives it)"));
}

Result<std::optional<bool>> parse_normalize(const json& object, const char* field) {
  return field == std::string_view("embd_normalize") ? parse_norm(object, field)
                                                     : optional_bool(object, field);
}

}  // namespace

Result<VectorOptions> parse_vector_options(const json& object) {
  const auto dimensions = read_synonyms(
      object, {"dimensions", "output_dimension"},
      [](const json& from, const char* field) { return optional_whole_number(from, field, 1); });
  if (!dimensions) return tl::unexpected(dimensions.error());
  // TEI's, Jina's, vLLM's and llama.cpp's.
  const auto normalize = read_synonyms(
      object, {"normalize", "normalized", "use_activation", "embd_normalize"}, parse_normalize);
  if (!normalize) return tl::unexpected(normalize.error());
  VectorOptions options;
  if (*dimensions) options.dimensions = static_cast<size_t>(**dimensions);
  const auto named = object.find("dimensions");
  if (named == object.end() || named->is_null()) options.dimensions_field = "output_dimension";
  options.normalize = *normalize;
  return options;
}

}  // namespace espalier::server
