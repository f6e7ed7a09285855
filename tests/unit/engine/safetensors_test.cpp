#include "engine/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <stdexcept>

namespace espalier::engine {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class SafetensorsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) /
              (std::string("safetensors_") +
               ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  /// Writes length, header and data; `claimed_length` in place of the header's own if not negative.
  fs::path write(const std::string& header, const std::string& data, int64_t claimed_length = -1) {
    const fs::path path = folder_ / "model.safetensors";
    std::ofstream file(path, std::ios::binary);
    const uint64_t length =
        claimed_length >= 0 ? static_cast<uint64_t>(claimed_length) : header.size();
    file.write(reinterpret_cast<const char*>(&length), sizeof(length));
    file << header << data;
    return path;
  }

  fs::path folder() const { return folder_; }

 private:
  fs::path folder_;
};

template <typename T>
std::string bytes_of_values(const std::vector<T>& values) {
  std::string out(values.size() * sizeof(T), '\0');
  std::memcpy(out.data(), values.data(), out.size());
  return out;
}

std::vector<float> to_f32(const TensorView& tensor) {
  std::vector<float> out(tensor.elements());
  convert_to_f32(tensor, 0, out.size(), out.data());
  return out;
}

TEST_F(SafetensorsTest, ReadsTensorsOfAllThreeTypes) {
  const fs::path path = write(R"({"__metadata__":{"format":"pt"},)"
                              R"("a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
                              R"("b":{"dtype":"BF16","shape":[3],"data_offsets":[8,14]},)"
                              R"("c":{"dtype":"F16","shape":[],"data_offsets":[14,16]}}   )",
                              bytes_of_values<float>({1.5f, -2.0f}) +
                                  bytes_of_values<uint16_t>({0x3f80, 0xc000, 0x7f80}) +
                                  bytes_of_values<uint16_t>({0x3800}));
  const SafetensorsFile file = SafetensorsFile::open(path);
  EXPECT_EQ(file.path(), path);
  ASSERT_EQ(file.tensors().size(), 3u);
  EXPECT_THAT(file.tensors().at("a").shape, ElementsAre(2, 1));
  EXPECT_THAT(to_f32(file.tensors().at("a")), ElementsAre(1.5f, -2.0f));
  EXPECT_THAT(to_f32(file.tensors().at("b")),
              ElementsAre(1.0f, -2.0f, std::numeric_limits<float>::infinity()));
  EXPECT_TRUE(file.tensors().at("c").shape.empty());
  EXPECT_THAT(to_f32(file.tensors().at("c")), ElementsAre(0.5f));
}

TEST_F(SafetensorsTest, ReadsUnalignedDataAndPartsOfIt) {
  const std::string header = R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}})";
  for (size_t padding = 0; padding < 4; ++padding) {
    const SafetensorsFile file = SafetensorsFile::open(
        write(header + std::string(padding, ' '), bytes_of_values<float>({1.0f, 2.0f, 3.0f})));
    EXPECT_THAT(to_f32(file.tensors().at("a")), ElementsAre(1.0f, 2.0f, 3.0f));
    float last = 0;
    convert_to_f32(file.tensors().at("a"), 2, 1, &last);
    EXPECT_EQ(last, 3.0f);
    EXPECT_THROW(convert_to_f32(file.tensors().at("a"), 3, 1, &last), std::out_of_range);
    EXPECT_THROW(convert_to_f32(file.tensors().at("a"), 1, SIZE_MAX, &last), std::out_of_range);
  }
}

TEST_F(SafetensorsTest, DataComesBackAfterItsPagesWereReleased) {
  std::vector<float> values(10000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const SafetensorsFile file = SafetensorsFile::open(
      write(R"({"a":{"dtype":"F32","shape":[10000],"data_offsets":[0,40000]}})",
            bytes_of_values(values)));
  EXPECT_EQ(to_f32(file.tensors().at("a")), values);
  file.release_pages(file.tensors().at("a"));
  EXPECT_EQ(to_f32(file.tensors().at("a")), values);
}

TEST_F(SafetensorsTest, AMovedFileKeepsItsViews) {
  SafetensorsFile first = SafetensorsFile::open(write(
      R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", bytes_of_values<float>({4.0f})));
  const TensorView view = first.tensors().at("a");
  const SafetensorsFile second = std::move(first);
  EXPECT_THAT(to_f32(view), ElementsAre(4.0f));
  EXPECT_EQ(second.tensors().size(), 1u);
}

TEST_F(SafetensorsTest, ListsOtherTypesWithoutRefusingThem) {
  const SafetensorsFile file =
      SafetensorsFile::open(write(R"({"ids":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},)"
                                  R"("new":{"dtype":"F4","shape":[3],"data_offsets":[8,10]}})",
                                  std::string(10, '\0')));
  EXPECT_TRUE(file.tensors().empty());
  EXPECT_EQ(file.other_dtypes().at("ids"), "I64");
  EXPECT_EQ(file.other_dtypes().at("new"), "F4");
}

TEST_F(SafetensorsTest, EmptyTensorsAndFilesWithoutTensorsAreFine) {
  EXPECT_TRUE(SafetensorsFile::open(write("{}", "")).tensors().empty());
  const SafetensorsFile file = SafetensorsFile::open(
      write(R"({"none":{"dtype":"F32","shape":[0,18446744073709551615],"data_offsets":[0,0]},)"
            R"("one":{"dtype":"F16","shape":[1],"data_offsets":[0,2]}})",
            std::string(2, '\0')));
  EXPECT_EQ(file.tensors().at("none").elements(), 0u);
  file.release_pages(file.tensors().at("none"));
  convert_to_f32(file.tensors().at("none"), 0, 0, nullptr);
  EXPECT_THAT(to_f32(file.tensors().at("one")), ElementsAre(0.0f));
}

TEST(F16, EveryNumberConvertsExactly) {
  std::vector<uint16_t> halves(65536);
  for (size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<uint16_t>(i);
  const TensorView tensor{DataType::kF16, {65536}, std::as_bytes(std::span(halves))};
  std::vector<float> out(65536);
  convert_to_f32(tensor, 0, 65536, out.data());
  for (size_t i = 0; i < out.size(); ++i) {
    const int exponent = static_cast<int>(i >> 10 & 31);
    const auto mantissa = static_cast<double>(i & 1023);
    const double sign = i >> 15 != 0 ? -1.0 : 1.0;
    if (exponent == 31 && mantissa != 0) {
      EXPECT_TRUE(std::isnan(out[i])) << i;
    } else if (exponent == 31) {
      EXPECT_EQ(out[i], sign * std::numeric_limits<double>::infinity());
    } else {
      const double magnitude =
          exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
      EXPECT_EQ(out[i], sign * magnitude) << i;
      EXPECT_EQ(std::signbit(out[i]), sign < 0) << i;
    }
  }
}

TEST_F(SafetensorsTest, MissingFilesAndFoldersAreRefusedByName) {
  const auto refuses = [](const fs::path& path, const char* reason) {
    EXPECT_THAT(
        [&] { SafetensorsFile::open(path); },
        ThrowsMessage<std::runtime_error>(AllOf(HasSubstr(path.string()), HasSubstr(reason))));
  };
  refuses(folder() / "absent", "No such file");
  refuses(folder(), "not a regular file");
  const fs::path fifo = folder() / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  refuses(fifo, "not a regular file");
  std::ofstream(folder() / "short") << "1234567";
  refuses(folder() / "short", "7 bytes");
  std::ofstream(folder() / "empty").close();
  refuses(folder() / "empty", "0 bytes");
}

TEST_F(SafetensorsTest, HeaderLengthsBeyondTheFileAreRefused) {
  const std::string header = R"({"a":{"dtype":"F16","shape":[1],"data_offsets":[0,2]}})";
  for (const int64_t length : {int64_t{58}, int64_t{1000}, int64_t{100'000'001}, INT64_MAX}) {
    const fs::path path = write(header, "xx", length);
    EXPECT_THAT([&] { SafetensorsFile::open(path); },
                ThrowsMessage<std::runtime_error>(
                    AllOf(HasSubstr("model.safetensors"), HasSubstr(std::to_string(length)))));
  }
  // Cut short, the header is no JSON.
  EXPECT_THROW(SafetensorsFile::open(write(header, "xx", 20)), std::runtime_error);
  EXPECT_THROW(SafetensorsFile::open(write(header, "xx", 0)), std::runtime_error);
  // Cut short, the data do not reach.
  EXPECT_THROW(SafetensorsFile::open(write(header, "x")), std::runtime_error);
}

struct Corruption {
  const char* name;
  std::string header;
  const char* reason;  // part of the message
};

class CorruptHeader : public ::testing::TestWithParam<Corruption> {};

TEST_P(CorruptHeader, IsRefusedWithFileTensorAndReason) {
  EXPECT_THAT([] { SafetensorsFile::parse_header(GetParam().header, 16, "dir/some.safetensors"); },
              ThrowsMessage<std::runtime_error>(
                  AllOf(HasSubstr("dir/some.safetensors"), HasSubstr(GetParam().reason))));
}

/// A header with one tensor, 'w.x', of these fields.
std::string tensor(const std::string& fields) { return R"({"w.x":{)" + fields + "}}"; }

INSTANTIATE_TEST_SUITE_P(
    Headers, CorruptHeader,
    ::testing::Values(
        Corruption{"Empty", "", "not valid JSON"}, Corruption{"Cut", R"({"w.x":{"dty)", "'w.x'"},
        Corruption{"Array", "[]", "an array"}, Corruption{"Number", "7", "a number"},
        Corruption{"Null", "null", "null"},
        Corruption{"Trailing", "{}{}", "not valid JSON at byte 3"},
        Corruption{"InvalidUtf8", "{\"\xff\":{}}", "not valid JSON"},
        Corruption{"DeepNesting", std::string(200000, '['), "an array"},
        Corruption{"DeepObjects", R"({"a":{"b":)" + std::string(1000, '{'), "unknown key 'b'"},
        Corruption{"DeepMetadata", R"({"__metadata__":{"a":{"b":1}}})", "an object"},
        Corruption{"MetadataNumber", R"({"__metadata__":{"a":1}})", "a number"},
        Corruption{"MetadataTwice", R"({"__metadata__":{},"__metadata__":{}})", "twice"},
        Corruption{"TensorIsAString", R"({"w.x":"F32"})", "a string"},
        Corruption{"TensorIsABoolean", R"({"w.x":true})", "a boolean"},
        Corruption{"DtypeIsANumber", tensor(R"("dtype":4)"), "a number"},
        Corruption{"DtypeMissing", tensor(R"("shape":[4],"data_offsets":[0,16])"), "'w.x' lacks"},
        Corruption{"ShapeMissing", tensor(R"("dtype":"F32","data_offsets":[0,16])"), "'w.x' lacks"},
        Corruption{"OffsetsMissing", tensor(R"("dtype":"F32","shape":[4])"), "'w.x' lacks"},
        Corruption{"DtypeTwice", tensor(R"("dtype":"F32","dtype":"F32")"), "'dtype' twice"},
        Corruption{"ShapeTwice", tensor(R"("shape":[1],"shape":[1])"), "'shape' twice"},
        Corruption{"OffsetsTwice", tensor(R"("data_offsets":[0,1],"data_offsets":[0,1])"),
                   "'data_offsets' twice"},
        Corruption{"UnknownKey", tensor(R"("stride":1)"), "unknown key 'stride'"},
        Corruption{"NameTwice",
                   R"({"w.x":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},)"
                   R"("w.x":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})",
                   "'w.x' is there twice"},
        Corruption{"NegativeShape", tensor(R"("dtype":"F32","shape":[-4])"), "a negative number"},
        Corruption{"FractionalShape", tensor(R"("dtype":"F32","shape":[4.5])"), "not an unsigned"},
        Corruption{"HugeShape", tensor(R"("shape":[18446744073709551616])"), "not an unsigned"},
        Corruption{"ExponentBeyondDouble", tensor(R"("shape":[1e999])"), "not valid JSON"},
        Corruption{"NestedShape", tensor(R"("shape":[[4]])"), "an array"},
        Corruption{"ShapeIsAString", tensor(R"("shape":"4")"), "a string"},
        Corruption{"ManyDimensions", tensor(R"("shape":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1])"),
                   "more than 16 numbers"},
        Corruption{"ShapeOverflows",
                   tensor(R"("dtype":"F32","shape":[4294967296,4294967296,4294967297],)"
                          R"("data_offsets":[0,16])"),
                   "'w.x' has a shape too large"},
        Corruption{"BytesOverflow",
                   tensor(R"("dtype":"F32","shape":[4611686018427387908],"data_offsets":[0,16])"),
                   "'w.x' has a shape too large"},
        Corruption{"ShapeTooSmall", tensor(R"("dtype":"F32","shape":[3],"data_offsets":[0,16])"),
                   "'w.x' has a shape that needs 12 bytes"},
        Corruption{"OtherTypeTooSmall",
                   tensor(R"("dtype":"I64","shape":[3],"data_offsets":[0,16])"),
                   "'w.x' has a shape that needs 24 bytes"},
        Corruption{"OneOffset", tensor(R"("data_offsets":[0])"), "two numbers in data_offsets"},
        Corruption{"ThreeOffsets", tensor(R"("data_offsets":[0,1,2])"),
                   "two numbers in data_offsets"},
        Corruption{"OffsetsReversed", tensor(R"("dtype":"F32","shape":[4],"data_offsets":[16,0])"),
                   "'w.x' has data_offsets [16, 0)"},
        Corruption{"OffsetsBeyondTheFile",
                   tensor(R"("dtype":"F32","shape":[5],"data_offsets":[0,20])"),
                   "'w.x' has data_offsets [0, 20), but the file has 16"},
        Corruption{"Overlap",
                   R"({"w.x":{"dtype":"F32","shape":[3],"data_offsets":[0,12]},)"
                   R"("w.y":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}})",
                   "'w.y' begins at data byte 8, within another tensor"},
        Corruption{"SameRangeTwice",
                   R"({"w.x":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},)"
                   R"("w.y":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})",
                   "within another tensor"},
        Corruption{"Gap",
                   R"({"w.x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                   R"("w.y":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}})",
                   "'w.y' begins at data byte 8, after a gap"},
        Corruption{"BytesLeftOver", tensor(R"("dtype":"F32","shape":[3],"data_offsets":[0,12])"),
                   "end at data byte 12"},
        Corruption{"ControlCharactersInTheName",
                   "{\"w\\n\\u0007x\":{\"dtype\":\"F32\",\"shape\":[9],\"data_offsets\":[0,16]}}",
                   "'w??x'"},
        Corruption{"VeryLongName", R"({")" + std::string(5000, 'n') + R"(":7})", "nnnn…'"}),
    [](const auto& test) { return test.param.name; });

TEST(SafetensorsHeader, AMessageIsShortHoweverLongTheName) {
  try {
    SafetensorsFile::parse_header(R"({")" + std::string(100000, 'n') + R"(":7})", 0, "file");
    FAIL() << "accepted";
  } catch (const std::runtime_error& error) {
    EXPECT_LT(std::string(error.what()).size(), 400u);
  }
}

TEST(SafetensorsModel, TheBundledModelOpens) {
  const SafetensorsFile file =
      SafetensorsFile::open(fs::path(ESPALIER_MINI_MODEL) / "model.safetensors");
  EXPECT_GT(file.tensors().size(), 10u);
  EXPECT_TRUE(file.other_dtypes().empty());
  for (const auto& [name, view] : file.tensors()) {
    for (const float value : to_f32(view)) ASSERT_TRUE(std::isfinite(value)) << name;
  }
}

}  // namespace
}  // namespace espalier::engine
