#include "server/commands/memory_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/commands/gemm_choice.h"

namespace espalier::commands {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// Qwen3-0.6B's.
PlannedModel planned_model(const std::string& name = "a") {
  PlannedModel model;
  model.name = name;
  model.config = models::ModelConfig{};
  model.config.torch_dtype = "bfloat16";
  model.config.layers = 28;
  model.config.hidden_size = 1024;
  model.config.intermediate_size = 3072;
  model.config.query_heads = 16;
  model.config.kv_heads = 8;
  model.config.head_dim = 128;
  model.config.vocab_size = 151669;
  model.config.max_positions = 32768;
  model.config.tied_embeddings = true;
  model.file_bytes = size_t{1200} << 20U;
  return model;
}

class MemoryCheckTest : public ::testing::Test {
 protected:
  std::string why(const std::vector<PlannedModel>& models, uint64_t limit_mib) const {
    MemoryLimit limit;
    limit.bytes = limit_mib << 20U;
    limit.source = "the control group's limit";
    return why_it_does_not_fit(models, options_, *gemm_, limit);
  }
  size_t resident_mib(const Options& options, engine::NumberFormat format) const {
    return (predict_memory({planned_model()}, options, *choose_gemm("native", format)).resident() >>
            20U) +
           1;
  }

  Options options_;
  std::shared_ptr<const engine::GemmBackend> gemm_ =
      choose_gemm("native", engine::NumberFormat::kF32);
};

TEST_F(MemoryCheckTest, WhatFitsNeedsNoAdvice) {
  const size_t needed =
      resident_mib(options_, engine::NumberFormat::kF32) + (kRequestBytesMin >> 20U);
  EXPECT_EQ(why({planned_model()}, needed), "");
  EXPECT_THAT(why({planned_model()}, needed - 2), HasSubstr("and 33.6 MB for requests, is more"));
}

TEST_F(MemoryCheckTest, SmallerBatchesAreAdvisedWhereTheySuffice) {
  const auto text = why({planned_model()}, resident_mib(options_, engine::NumberFormat::kF32) - 50);
  EXPECT_THAT(text, AllOf(HasSubstr("2.02 GB"), HasSubstr("the control group's limit"),
                          HasSubstr(" would fit"), HasSubstr("--memory-check off")));
  // The advice holds.
  options_.max_batch_tokens = 2048;
  options_.max_input_tokens = 2048;
  EXPECT_THAT(text, HasSubstr("--max-batch-tokens 2048 --max-input-tokens 2048 would fit"));
  EXPECT_EQ(why({planned_model()}, resident_mib(Options(), engine::NumberFormat::kF32) - 50), "");
}

TEST_F(MemoryCheckTest, OtherFormatsAreAdvisedWithTheirFigures) {
  const auto text = why({planned_model()}, 700);
  EXPECT_THAT(text, AllOf(HasSubstr("--dtype int8 would need"), HasSubstr("and fit"),
                          Not(HasSubstr("MB would fit"))));
  EXPECT_THAT(why({planned_model()}, 520), HasSubstr("--dtype int8 with --max-batch-tokens"));
  EXPECT_THAT(why({planned_model()}, 100), HasSubstr("too much still"));
}

TEST_F(MemoryCheckTest, SeveralModelsAreListed) {
  EXPECT_THAT(
      why({planned_model("a"), planned_model("b")}, 3000),
      AllOf(HasSubstr("of that a 2.0"), HasSubstr(", b 2.0"), HasSubstr("fewer models need less")));
}

TEST_F(MemoryCheckTest, TheAddressSpaceIsALimitOfItsOwn) {
  MemoryLimit limit;
  limit.address_space = uint64_t{2600} << 20U;
  EXPECT_THAT(why_it_does_not_fit({planned_model()}, options_, *gemm_, limit),
              HasSubstr("RLIMIT_AS"));
  limit.address_space = uint64_t{8000} << 20U;
  EXPECT_EQ(why_it_does_not_fit({planned_model()}, options_, *gemm_, limit), "");
}

}  // namespace
}  // namespace espalier::commands
