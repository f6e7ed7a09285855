// The score template that a model brings, or that the options name.
//
// Thread contract: stateless.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "text/rerank_template.h"

namespace espalier::commands {

/// --rerank-template: the name of a known one, a jinja file (its name ends in .jinja), or a plain
/// text. Throws std::runtime_error naming the option and the reason.
text::RerankTemplate named_template(const std::string& name_or_file);

/// The first of a model folder's files that holds a score template: additional_chat_templates/
/// reranker.jinja, chat_template.jinja, and `chat_template` in tokenizer_config.json. One that is
/// not understood is logged by name and left out; chat templates are not looked at.
std::optional<text::RerankTemplate> models_own_template(const std::filesystem::path& folder);

}  // namespace espalier::commands
