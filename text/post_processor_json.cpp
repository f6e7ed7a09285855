#include <nlohmann/json.hpp>

#include "text/tokenizer_components.h"

namespace espalier::text {
namespace {

/// The ids of one `{"SpecialToken": {"id": name, …}}`: what `special_tokens` lists under its name.
std::vector<uint32_t> special_token_ids(const JsonField& token, const JsonField& processor) {
  const std::string name = token.string_at("id");
  const JsonField known = processor.at("special_tokens");
  const auto special = known.find(name);
  if (!special) known.refuse("lacks " + in_quotes(name) + ", which the template uses");
  std::vector<uint32_t> ids;
  for (const JsonField& id : special->at("ids").items()) ids.push_back(id.as_token_id());
  return ids;
}

PostProcessor read_template(const JsonField& processor) {
  const JsonField pieces = processor.at("single");
  PostProcessor result;
  bool behind_text = false;
  for (const JsonField& piece : pieces.items()) {
    if (const auto sequence = piece.find("Sequence")) {
      if (sequence->string_at("id") != "A") sequence->refuse("a single text has sequence A only");
      if (behind_text) piece.refuse("the text is repeated, which is not supported");
      behind_text = true;
    } else {
      auto& ids = behind_text ? result.suffix : result.prefix;
      const auto added = special_token_ids(piece.at("SpecialToken"), processor);
      ids.insert(ids.end(), added.begin(), added.end());
    }
  }
  if (!behind_text) pieces.refuse("the text (sequence A) is missing");
  return result;
}

}  // namespace

PostProcessor read_post_processor(const JsonField& post_processor) {
  PostProcessor result;
  bool has_template = false;
  for (const JsonField& component : flatten_sequence(post_processor, "processors")) {
    const std::string type = component.string_at("type");
    if (type == "ByteLevel") continue;  // changes offsets, not ids
    if (type != "TemplateProcessing") {
      component.refuse("the post-processor " + in_quotes(type) +
                       " is not supported (ByteLevel and TemplateProcessing are)");
    }
    // Hugging Face's library panics on the second one.
    if (has_template) component.refuse("a second TemplateProcessing is not supported");
    has_template = true;
    result = read_template(component);
  }
  return result;
}

}  // namespace espalier::text
