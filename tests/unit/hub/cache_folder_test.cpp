#include "hub/cache_folder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "hub/cached_models.h"
#include "hub/hub_error.h"
#include "hub/partial_file.h"
#include "hub/snapshot_check.h"

namespace espalier::hub {
namespace {

namespace fs = std::filesystem;

const std::string kCommit(40, 'c');

class CacheFolderTest : public ::testing::Test {
 protected:
  CacheFolderTest()
      : cache_(fs::path(::testing::TempDir()) /
               ("espalier_hub_" + std::to_string(::getpid()) + "_" +
                ::testing::UnitTest::GetInstance()->current_test_info()->name())),
        folder_(cache_, "org/name") {
    fs::remove_all(cache_);
    folder_.make_folders(kCommit);
  }
  ~CacheFolderTest() override { fs::remove_all(cache_); }

  void write(const fs::path& file, const std::string& text) {
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }

  fs::path cache_;
  CacheFolder folder_;
};

TEST_F(CacheFolderTest, LinksAreRelativeAndReplaceWhatLeadsNowhere) {
  write(folder_.blob("etag"), "content");
  for (int again = 0; again < 2; ++again) {
    folder_.put(kCommit, "a.json", "etag");
    folder_.put(kCommit, "x/y/a.json", "etag");
  }
  const fs::path snapshot = cache_ / "models--org--name" / "snapshots" / kCommit;
  EXPECT_EQ(folder_.snapshot(kCommit), snapshot);
  EXPECT_EQ(fs::read_symlink(snapshot / "a.json"), "../../blobs/etag");
  EXPECT_EQ(fs::read_symlink(snapshot / "x/y/a.json"), "../../../../blobs/etag");
  EXPECT_EQ(read_small_file(snapshot / "x/y/a.json"), "content");

  fs::create_symlink("../../blobs/gone", snapshot / "b.json");
  EXPECT_FALSE(folder_.has(kCommit, "b.json"));
  folder_.put(kCommit, "b.json", "etag");
  EXPECT_TRUE(folder_.has(kCommit, "b.json"));
  write(snapshot / "c.json", "an older one");
  folder_.put(kCommit, "c.json", "etag");
  EXPECT_EQ(read_small_file(snapshot / "c.json"), "content");
}

TEST_F(CacheFolderTest, RevisionsAreRemembered) {
  EXPECT_EQ(folder_.commit_of("main"), std::nullopt);
  EXPECT_EQ(folder_.commit_of(kCommit), kCommit);
  folder_.remember("main", kCommit);
  folder_.remember("refs/pr/1", kCommit);
  folder_.remember(kCommit, kCommit);
  EXPECT_EQ(read_small_file(folder_.folder() / "refs" / "main"), kCommit);
  EXPECT_EQ(folder_.commit_of("refs/pr/1"), kCommit);
  EXPECT_FALSE(fs::exists(folder_.folder() / "refs" / kCommit));
  write(folder_.folder() / "refs" / "main", std::string(40, 'd') + "\n");
  EXPECT_EQ(folder_.commit_of("main"), std::string(40, 'd'));
  for (const char* none : {"", "main", "../../../etc/passwd"}) {
    write(folder_.folder() / "refs" / "main", none);
    EXPECT_EQ(folder_.commit_of("main"), std::nullopt) << none;
  }
}

TEST_F(CacheFolderTest, LacksAreRemembered) {
  EXPECT_FALSE(folder_.lacks(kCommit, "modules.json"));
  folder_.remember_lack(kCommit, "modules.json");
  EXPECT_TRUE(folder_.lacks(kCommit, "modules.json"));
  EXPECT_TRUE(fs::exists(folder_.folder() / ".no_exist" / kCommit / "modules.json"));
}

TEST_F(CacheFolderTest, NamesOfFoldersAreThoseOfRepositories) {
  EXPECT_EQ(repository_of_folder("models--org--name"), "org/name");
  EXPECT_EQ(repository_of_folder("models--o.r_g--n-a"), "o.r_g/n-a");
  for (const char* none : {"models--gpt2", "datasets--a--b", "a--b", "models--a--b--c", "models--",
                           "models----", ".locks", "blobs"})
    EXPECT_EQ(repository_of_folder(none), "") << none;
}

TEST_F(CacheFolderTest, PartialFilesGrowAndMove) {
  const fs::path path = folder_.partial("etag");
  EXPECT_EQ(path.filename(), "etag.incomplete");
  {
    PartialFile partial(path);
    partial.append("abc");
  }
  PartialFile partial(path);
  EXPECT_EQ(partial.size(), 3U);
  partial.append("def");
  std::string text;
  partial.read([&](std::string_view piece) { text += piece; });
  EXPECT_EQ(text, "abcdef");
  partial.clear();
  EXPECT_EQ(partial.size(), 0U);
  partial.append("x");
  partial.move_to(folder_.blob("etag"));
  EXPECT_FALSE(fs::exists(path));
  EXPECT_EQ(read_small_file(folder_.blob("etag")), "x");
}

TEST_F(CacheFolderTest, PartialFilesAreNoLinks) {
  write(cache_ / "victim", "precious");
  fs::create_symlink(cache_ / "victim", folder_.partial("etag"));
  EXPECT_THROW(PartialFile(folder_.partial("etag")), HubError);
  EXPECT_EQ(read_small_file(cache_ / "victim"), "precious");
}

TEST_F(CacheFolderTest, RoomIsRequired) {
  EXPECT_NO_THROW(require_disk_space(cache_, 1));
  EXPECT_THROW(require_disk_space(cache_, UINT64_MAX), HubError);
}

TEST_F(CacheFolderTest, SnapshotsAreCheckedWithoutTheHub) {
  const fs::path snapshot = folder_.snapshot(kCommit);
  const auto missing = [&] { return check_snapshot(snapshot, "", "org/name").missing; };
  using Names = std::vector<std::string>;
  EXPECT_EQ(missing(), (Names{"config.json", "tokenizer.json", "model.safetensors"}));
  for (const char* name : {"config.json", "tokenizer.json"}) write(snapshot / name, "{}");
  write(snapshot / "model.safetensors.index.json",
        R"({"weight_map": {"a": "1.safetensors", "b": "2.safetensors"}})");
  write(snapshot / "1.safetensors", "");
  EXPECT_EQ(missing(), Names{"2.safetensors"});
  write(snapshot / "model.safetensors", "");
  EXPECT_EQ(missing(), Names{});
  write(snapshot / "modules.json", R"([{"type": "x.Pooling", "path": "1_Pooling"}])");
  EXPECT_EQ(missing(), Names{"1_Pooling/config.json"});
  write(snapshot / "modules.json", "not JSON");
  EXPECT_THROW(missing(), HubError);
}

TEST_F(CacheFolderTest, ListingSurvivesWhatOtherToolsLeave) {
  write(cache_ / "models--org--name" / "snapshots" / kCommit / "modules.json", "not JSON");
  write(cache_ / "models--gpt2" / "snapshots" / kCommit / "config.json", "{}");
  write(cache_ / "version.txt", "1");
  fs::create_directories(cache_ / "blobs" / "aa");
  fs::create_symlink(".", cache_ / "models--loop--loop");
  const auto models = cached_models(cache_);
  ASSERT_EQ(models.size(), 1U);
  EXPECT_EQ(models[0].repository, "org/name");
  EXPECT_EQ(models[0].missing.size(), 1U);
  EXPECT_TRUE(cached_models(cache_ / "nowhere").empty());
}

}  // namespace
}  // namespace espalier::hub
