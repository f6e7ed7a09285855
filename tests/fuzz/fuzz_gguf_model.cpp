// GGUF files as models: whatever the metadata and tensors say, configuration, tokenizer and weights
// are either refused with std::runtime_error, or what the rest of the program can rely on.
//
// Input: a GGUF file.
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>

#include "engine/rope_frequencies.h"
#include "models/decoder_weights.h"
#include "models/embedding_config.h"
#include "models/gguf_weights.h"
#include "models/model_config.h"
#include "models/rerank_config.h"
#include "server/commands/model_tokenizer.h"
#include "tests/unit/models/tiny_model.h"
#include "text/utf8.h"

namespace {

using namespace espalier;

void require(bool holds) {
  if (!holds) std::abort();
}

template <typename Read>
void read_or_refuse(const Read& read) {
  try {
    read();
  } catch (const std::runtime_error& error) {
    require(*error.what() != '\0');
  }
}

void read_tokenizer(const std::filesystem::path& file) {
  const text::Tokenizer tokenizer = commands::load_tokenizer(file);
  const std::string text = "abcab e\xCC\x81 <x> 12\n\xE6\xBC\xA2!";
  const auto ids = tokenizer.encode(text);
  for (const uint32_t id : ids) require(id < tokenizer.id_count());
  size_t tokens = 0;
  for (const text::TokenWithOffsets& token : tokenizer.encode_with_offsets(text)) {
    require(token.begin <= token.end && token.end <= text.size());
    require(token.id == ids.at(tokens++));
  }
  require(tokens == ids.size());
  require(text::is_valid_utf8(tokenizer.decode(ids, false)));
}

void read_weights(const std::filesystem::path& file) {
  const models::ModelConfig config = models::read_model_config(file);
  require(config.query_heads % config.kv_heads == 0 && config.head_dim % 2 == 0);
  require(config.max_positions >= 1 && config.max_positions <= config.rope_positions);
  const auto frequencies =
      engine::rope_frequencies(config.head_dim, config.rope_theta, config.rope_scaling);
  require(frequencies.size() == config.head_dim / 2);
  const models::GgufWeights weights = models::GgufWeights::open(file);
  models::check_tensors(config, weights, {"score.weight"});
  for (const models::ExpectedTensor& expected : models::expected_tensors(config)) {
    const models::WeightTensor tensor = weights.tensor(expected);
    require(tensor.view.shape == expected.shape);
    std::vector<float> values(tensor.view.elements());
    engine::convert_to_f32(tensor.view, 0, values.size(), values.data());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const models::test::TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "fuzz.gguf";
  folder.write(file.filename(), {reinterpret_cast<const char*>(data), size});
  read_or_refuse([&] { read_tokenizer(file); });
  read_or_refuse([&] { read_weights(file); });
  read_or_refuse([&] { (void)models::read_embedding_config(file); });
  read_or_refuse([&] { require(models::read_rerank_config(file).labels <= 2); });
  return 0;
}
