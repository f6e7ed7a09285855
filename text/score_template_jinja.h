// A model's own score template in jinja, as sentence-transformers and vLLM render it: with messages
// of the roles "query" and "document", and the instruction as a variable and as a message of the
// role "system".
//
// The template is run once, with marks for what a request will send instead of texts, so requests
// are never rendered: their texts cannot be taken for jinja. A template whose way depends on what
// such a text says is not understood.
//
// Thread contract: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "text/rerank_template.h"

namespace espalier::text {

/// Whether `source` speaks of queries and documents at all; chat templates do not.
bool is_score_template(std::string_view source);

/// Throws std::runtime_error saying what in the template is not understood.
RerankTemplate parse_score_template(std::string_view source, std::string name);

}  // namespace espalier::text
