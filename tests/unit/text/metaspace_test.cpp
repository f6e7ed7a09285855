// Marks in place of spaces, and the words that start with them.
#include "text/metaspace.h"

#include <gtest/gtest.h>

namespace espalier::text {
namespace {

using Prepend = Metaspace::Prepend;
using Words = std::vector<std::string_view>;

std::string marked(const Metaspace& metaspace, std::string_view text, bool begins_text = true) {
  std::string buffer, other;
  Alignment alignment;
  const std::string result(metaspace.marked(text, begins_text, buffer));
  EXPECT_EQ(metaspace.marked(text, begins_text, other, alignment), result) << "with an alignment";
  return result;
}

TEST(Metaspace, PutsAMarkBeforeTextThatStartsWithNone) {
  const Metaspace always{"_", Prepend::kAlways};
  EXPECT_EQ(marked(always, "a b"), "_a_b");
  EXPECT_EQ(marked(always, "a", false), "_a");
  EXPECT_EQ(marked(always, " a"), "_a");
  EXPECT_EQ(marked(always, "_a"), "_a");
  EXPECT_EQ(marked(always, "  a  "), "__a__");
  EXPECT_EQ(marked(always, ""), "");
}

TEST(Metaspace, PutsItBeforeTheFirstTextOrBeforeNone) {
  const Metaspace first{"_", Prepend::kFirst}, never{"_", Prepend::kNever};
  EXPECT_EQ(marked(first, "a b"), "_a_b");
  EXPECT_EQ(marked(first, "a b", false), "a_b");
  EXPECT_EQ(marked(never, "a b"), "a_b");
}

TEST(Metaspace, MarksStandForTheirSpacesAndTheFirstCharacter) {
  std::string buffer;
  Alignment alignment;
  EXPECT_EQ(Metaspace().marked("\u00E9 b", true, buffer, alignment), "\u2581\u00E9\u2581b");
  EXPECT_EQ(alignment.source_of({0, 3}), (ByteRange{0, 2}));
  EXPECT_EQ(alignment.source_of({0, 5}), (ByteRange{0, 2}));
  EXPECT_EQ(alignment.source_of({5, 8}), (ByteRange{2, 3}));
  EXPECT_EQ(alignment.source_of({5, 9}), (ByteRange{2, 4}));
}

Words words(const MarkedWords& cutter, std::string_view text, TextEnd end = TextEnd::kFinal) {
  Words result;
  cutter.split_from(text, 0, end, 1000, result);
  return result;
}

TEST(MarkedWords, StartAtEachMarkOrAtRunsOfThem) {
  const MarkedWords each{"_", true}, runs{"_", false};
  EXPECT_EQ(words(each, "a_b__c_"), (Words{"a", "_b", "_", "_c", "_"}));
  EXPECT_EQ(words(runs, "a_b__c_"), (Words{"a", "_b", "__c", "_"}));
  EXPECT_EQ(words(each, "___"), (Words{"_", "_", "_"}));
  EXPECT_EQ(words(runs, "___"), (Words{"___"}));
  EXPECT_EQ(words(runs, ""), Words{});
}

TEST(MarkedWords, OfAnOpenTextAreThoseThatAMarkFollows) {
  const MarkedWords each{"_", true}, runs{"_", false};
  EXPECT_EQ(words(each, "_a_b", TextEnd::kOpen), Words{"_a"});
  EXPECT_EQ(words(each, "_a__", TextEnd::kOpen), (Words{"_a", "_"}));
  EXPECT_EQ(words(runs, "_a__", TextEnd::kOpen), Words{"_a"});
  EXPECT_EQ(words(runs, "___", TextEnd::kOpen), Words{});
}

TEST(MarkedWords, GoOnWhereTheyStopped) {
  const MarkedWords runs{"_", false};
  const std::string_view text = "_a_b__c";
  Words result;
  size_t at = 0;
  for (size_t next; (next = runs.split_from(text, at, TextEnd::kFinal, 1, result)) != at;)
    at = next;
  EXPECT_EQ(result, (Words{"_a", "_b", "__c"}));
  EXPECT_EQ(at, text.size());
}

}  // namespace
}  // namespace espalier::text
