#include "engine/gguf_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>
#include <stdexcept>

#include "tests/unit/engine/gguf_bytes.h"

namespace espalier::engine {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr uint32_t kF32 = 0, kQ8_0 = 8, kQ4_K = 12, kIQ4_XS = 23;

GgufFile::Header parse(const std::string& file) {
  return GgufFile::parse_header(std::as_bytes(std::span(file)), "m.gguf");
}

/// One of each kind of value, and three tensors.
std::string good_file() {
  GgufBytes file(3, 8);
  file.key("general.architecture", GgufType::kString).string("qwen3");
  file.key("a.u8", GgufType::kUint8).number<uint8_t>(200);
  file.key("a.i64", GgufType::kInt64).number<int64_t>(-5);
  file.key("a.f32", GgufType::kFloat32).number(1.5F);
  file.key("a.bool", GgufType::kBool).number<uint8_t>(1);
  file.array("a.texts", GgufType::kString, 3).string("x").string("").string("yz");
  file.array("a.types", GgufType::kInt32, 2).number<int32_t>(7).number<int32_t>(-1);
  file.array("a.scores", GgufType::kFloat32, 2).number(0.5F).number(-INFINITY);
  file.tensor("matrix", {64, 3}, kQ8_0, 0);
  file.tensor("vector", {4}, kF32, 224);
  file.tensor("other", {256}, kIQ4_XS, 256);
  file.align().data(6 * 34, 1).align().data(16, 2).align().data(136, 3);
  return file.str();
}

TEST(GgufFile, ReadsMetadataAndTensors) {
  const std::string file = good_file();
  const GgufFile::Header header = parse(file);
  const GgufMetadata& metadata = header.metadata;
  EXPECT_EQ(metadata.size(), 8U);
  EXPECT_EQ(metadata.text("general.architecture"), "qwen3");
  EXPECT_EQ(metadata.unsigned_integer("a.u8"), 200U);
  EXPECT_EQ(metadata.number("a.i64"), -5.0);
  EXPECT_EQ(metadata.number("a.f32"), 1.5);
  EXPECT_EQ(metadata.boolean("a.bool"), true);
  EXPECT_THAT(*metadata.texts("a.texts"), ElementsAre("x", "", "yz"));
  EXPECT_THAT(*metadata.integers("a.types"), ElementsAre(7, -1));
  EXPECT_THAT(*metadata.floats("a.scores"), ElementsAre(0.5F, -INFINITY));
  EXPECT_EQ(metadata.text("absent"), std::nullopt);
  EXPECT_FALSE(metadata.texts("absent"));

  ASSERT_EQ(header.entries.size(), 2U);
  const GgufFile::Entry& matrix = header.entries.at("matrix");
  EXPECT_EQ(matrix.dtype, DataType::kQ8_0);
  EXPECT_THAT(matrix.shape, ElementsAre(3, 64));
  EXPECT_EQ(matrix.begin % 32, 0U);
  EXPECT_EQ(matrix.end - matrix.begin, 6U * 34);
  EXPECT_EQ(header.other_types.at("other"), "IQ4_XS");
}

TEST(GgufFile, NamesKeyAndTypeOfAValueOfAnotherType) {
  const std::string file = good_file();
  const GgufMetadata metadata = parse(file).metadata;
  const auto says = [](const char* text) {
    return ThrowsMessage<std::runtime_error>(AllOf(HasSubstr("m.gguf: a."), HasSubstr(text)));
  };
  EXPECT_THAT([&] { metadata.text("a.u8"); }, says("expected a string, found uint8"));
  EXPECT_THAT([&] { metadata.boolean("a.u8"); }, says("expected a bool, found uint8"));
  EXPECT_THAT([&] { metadata.unsigned_integer("a.i64"); }, says("-5 must not be negative"));
  EXPECT_THAT([&] { metadata.unsigned_integer("a.types"); }, says("found an array of int32"));
  EXPECT_THAT([&] { metadata.number("a.texts"); }, says("found an array of string"));
  EXPECT_THAT([&] { metadata.texts("a.types"); }, says("expected an array of strings"));
  EXPECT_THAT([&] { metadata.texts("a.bool"); }, says("expected an array, found bool"));
  EXPECT_THAT([&] { metadata.integers("a.texts"); }, says("element 0 is not a 32-bit integer"));
  EXPECT_THAT([&] { metadata.floats("a.types"); }, says("expected an array of floats"));
}

TEST(GgufFile, OpensAFile) {
  const fs::path path = fs::path(::testing::TempDir()) / "gguf_file_test.gguf";
  std::ofstream(path, std::ios::binary) << good_file();
  const GgufFile file = GgufFile::open(path);
  EXPECT_EQ(file.path(), path);
  std::vector<float> values(4);
  convert_to_f32(file.tensors().at("vector"), 0, 4, values.data());
  EXPECT_EQ(std::as_bytes(std::span(values))[0], std::byte{2});
  file.release_pages(file.tensors().at("vector"));
  EXPECT_EQ(file.metadata().text("general.architecture"), "qwen3");
  fs::remove(path);
  EXPECT_THAT([&] { GgufFile::open(path); },
              ThrowsMessage<std::runtime_error>(HasSubstr("cannot open the file")));
}

struct Refusal {
  std::string name, file, message;
};

std::vector<Refusal> refusals() {
  const auto one = [](uint32_t type, uint64_t offset, std::vector<uint64_t> dimensions,
                      size_t data) {
    return GgufBytes(1, 0).tensor("t", dimensions, type, offset).align().data(data).str();
  };
  return {
      {"magic", "GGML" + std::string(40, '\0'), "does not begin with GGUF"},
      {"old", GgufBytes(0, 0, 1).str(), "GGUF version 1"},
      {"new", GgufBytes(0, 0, 4).str(), "GGUF version 4"},
      {"swapped", GgufBytes(0, 0, 0x03000000).str(), "big-endian"},
      {"tensor count", GgufBytes(uint64_t{1} << 60, 0).str(), "the most are 65536"},
      {"key count", GgufBytes(0, UINT64_MAX).str(), "the most are 65536"},
      {"no keys", GgufBytes(0, 3).str(), "key 0 needs 8 bytes"},
      {"key length", GgufBytes(0, 1).number(UINT64_MAX).str(), "key 0 needs"},
      {"value type", GgufBytes(0, 1).string("k").number<uint32_t>(13).str(), "unknown type 13"},
      {"text length", GgufBytes(0, 1).key("k", GgufType::kString).number<uint64_t>(99).str(),
       "key 'k' needs 99 bytes"},
      {"array length", GgufBytes(0, 1).array("k", GgufType::kUint16, uint64_t{1} << 63).str(),
       "key 'k' claims"},
      {"texts",
       GgufBytes(0, 1).array("k", GgufType::kString, 2).string("a").number<uint64_t>(9).str(),
       "key 'k' needs 9 bytes"},
      {"nested", GgufBytes(0, 1).array("k", GgufType::kArray, 0).str(), "array of arrays"},
      {"twice",
       GgufBytes(0, 2).key("k", GgufType::kBool).data(1).key("k", GgufType::kBool).data(1).str(),
       "key 'k' is there twice"},
      {"alignment", GgufBytes(0, 1).key("general.alignment", GgufType::kUint32).number(48U).str(),
       "general.alignment: 48 is not a power of two"},
      {"rank", one(kF32, 0, {1, 1, 1, 1, 1}, 4), "tensor 't' has 5 dimensions"},
      {"too large", one(kF32, 0, {uint64_t{1} << 62, 4}, 4), "dimensions that are too large"},
      {"no blocks", one(kQ4_K, 0, {255}, 144), "not whole blocks of Q4_K"},
      {"misaligned", one(kF32, 16, {1}, 64), "no multiple of 32"},
      {"past the end", one(kF32, 64, {1}, 64), "needs 4 bytes at data byte 64"},
      {"offset", one(kF32, UINT64_MAX - 31, {1}, 64), "needs 4 bytes at data byte"},
      {"short", one(kF32, 0, {17}, 64), "needs 68 bytes"},
      {"tensor twice",
       GgufBytes(2, 0).tensor("t", {1}, kF32, 0).tensor("t", {1}, kF32, 32).align().data(64).str(),
       "tensor 't' is there twice"},
      {"overlap",
       GgufBytes(2, 0).tensor("t", {9}, kF32, 0).tensor("u", {1}, kF32, 32).align().data(64).str(),
       "within tensor 't'"},
  };
}

TEST(GgufFile, RefusesWhatDoesNotFit) {
  for (const Refusal& refusal : refusals()) {
    EXPECT_THAT(
        [&] { parse(refusal.file); },
        ThrowsMessage<std::runtime_error>(AllOf(HasSubstr("m.gguf: "), HasSubstr(refusal.message))))
        << refusal.name;
  }
}

/// Whatever parse_header() lets pass lies within the file; all values can be read.
void read_all(const std::string& file) {
  const GgufFile::Header header = parse(file);
  for (const auto& [name, entry] : header.entries) {
    ASSERT_LE(entry.begin, entry.end);
    ASSERT_LE(entry.end, file.size());
    TensorView view{entry.dtype, entry.shape,
                    std::as_bytes(std::span(file)).subspan(entry.begin, entry.end - entry.begin)};
    std::vector<float> values(view.elements());
    convert_to_f32(view, 0, values.size(), values.data());
  }
  (void)header.metadata.text("general.architecture");
  (void)header.metadata.texts("a.texts");
  (void)header.metadata.integers("a.types");
  (void)header.metadata.floats("a.scores");
}

void read_or_refuse(const std::string& file) {
  try {
    read_all(file);
  } catch (const std::runtime_error&) {
    // Refused: the other allowed outcome.
  }
}

TEST(GgufFile, RefusesEveryTruncation) {
  const std::string file = good_file();
  const size_t needed = file.size() - 160;  // behind them lies the tensor of a type unknown here
  for (size_t size = 0; size < needed; ++size) {
    EXPECT_THROW(parse(file.substr(0, size)), std::runtime_error) << size;
  }
}

TEST(GgufFile, SurvivesBitFlips) {
  const std::string file = good_file();
  for (size_t bit = 0; bit < file.size() * 8; ++bit) {
    std::string flipped = file;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ 1 << bit % 8);
    read_or_refuse(flipped);
  }
  std::mt19937 random(1);
  for (int round = 0; round < 20'000; ++round) {
    std::string flipped = file;
    for (int flips = 0; flips < 4; ++flips) {
      flipped[random() % 460] = static_cast<char>(random());
    }
    read_or_refuse(flipped);
  }
}

}  // namespace
}  // namespace espalier::engine
