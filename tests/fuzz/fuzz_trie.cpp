// Bytes → a batch of sequences → its plan, held against the quadratic twin.
//
// The bytes are a little program: begin a sequence (for a tenant), copy a prefix of an earlier one,
// append tokens. So the fuzzer reaches deep sharing, splits at every place and ends inside nodes.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <vector>

#include "scheduler/plan_builder.h"
#include "tests/reference/naive_trie.h"

namespace {

using espalier::engine::DedupMode;
using espalier::reference::NaiveSequence;

constexpr size_t kTokensMax = 600;  // the twin is quadratic

class Reader {
 public:
  explicit Reader(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  bool empty() const { return at_ >= bytes_.size(); }
  uint8_t next() { return empty() ? 0 : bytes_[at_++]; }

 private:
  std::span<const uint8_t> bytes_;
  size_t at_ = 0;
};

std::vector<NaiveSequence> read_batch(Reader& reader) {
  std::vector<NaiveSequence> batch;
  size_t tokens = 0;
  while (!reader.empty() && tokens < kTokensMax) {
    const uint8_t head = reader.next();
    NaiveSequence sequence;
    sequence.tenant = head & 3U;
    sequence.wants_all = (head & 4U) != 0;
    if ((head & 8U) != 0 && !batch.empty()) {
      const std::vector<uint32_t>& earlier = batch[reader.next() % batch.size()].ids;
      sequence.ids.assign(
          earlier.begin(),
          earlier.begin() + static_cast<long>(reader.next() % (earlier.size() + 1)));
    }
    const size_t own = head >> 4U;
    for (size_t i = 0; i < own || sequence.ids.empty(); ++i) {
      sequence.ids.push_back(reader.next() * 0x01010101U);
    }
    tokens += sequence.ids.size();
    batch.push_back(std::move(sequence));
  }
  return batch;
}

void require(bool holds, const char* what) {
  if (!holds) {
    std::fprintf(stderr, "the plan differs from the twin's: %s\n", what);
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using espalier::scheduler::PlanBuilder;
  using espalier::scheduler::WantedRows;
  // Kept from input to input, as a planner keeps its own.
  static PlanBuilder builders[] = {PlanBuilder(DedupMode::kTrie), PlanBuilder(DedupMode::kRadixMlp),
                                   PlanBuilder(DedupMode::kOff)};
  static espalier::engine::BatchPlan plan;
  constexpr DedupMode kModes[] = {DedupMode::kTrie, DedupMode::kRadixMlp, DedupMode::kOff};

  Reader reader({data, size});
  const size_t mode = reader.next() % 3U;
  const std::vector<NaiveSequence> batch = read_batch(reader);
  PlanBuilder& builder = builders[mode];
  builder.clear();
  size_t rows = 0;
  for (const NaiveSequence& sequence : batch) {
    rows += builder.new_rows(sequence.tenant, sequence.ids);
    builder.add(sequence.tenant, sequence.ids,
                sequence.wants_all ? WantedRows::kAll : WantedRows::kLast);
    require(builder.rows() == rows, "rows do not add up to their prices");
  }
  builder.build(plan);
  const char* difference = espalier::reference::first_difference(
      plan, espalier::reference::naive_plan(batch, kModes[mode]));
  require(difference == nullptr, difference);
  return 0;
}
