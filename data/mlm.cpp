// The masking of BERT's pre-training (Devlin et al., 2019, section 3.1 and its code).
#include <cmath>

#include "core/check.h"
#include "data/sequence_samples.h"

namespace cbwc {
namespace {

constexpr double kMasked = 0.8, kReplaced = 0.1;  // of the selected; the rest stays
constexpr uint64_t kEvalSeed = 20181011;          // any fixed number

}  // namespace

MaskedTokens::MaskedTokens(const SequenceFile& file, const std::string& split, int64_t context,
                           double probability)
    : TextClassification(file, split, context), probability_(probability) {
  CBWC_CHECK(source_.mask >= 0, file.path(), ": its tokenizer (", file.tokenizer().kind(),
             ") has no [MASK]; build the file with --tokenizer wordpiece");
  CBWC_CHECK(probability > 0 && probability <= 1, "samples: a mask probability of ", probability,
             ", expected above 0 and at most 1");
  for (int32_t id = 0; id < static_cast<int32_t>(vocab_); ++id)
    if (!source_.contains(id)) ordinary_.push_back(id);
  CBWC_CHECK(!ordinary_.empty(), file.path(), ": its vocabulary has specials only");
}

std::vector<MaskedTokens::Target> MaskedTokens::mask(std::vector<int32_t>& ids, Rng& rng) const {
  std::vector<size_t> places;
  for (size_t t = 0; t < ids.size(); ++t)
    if (!source_.contains(ids[t])) places.push_back(t);
  std::vector<Target> targets;
  if (places.empty()) return targets;
  const double wanted = std::round(probability_ * static_cast<double>(places.size()));
  const size_t count = std::max<size_t>(1, static_cast<size_t>(wanted));
  for (size_t i = 0; i < count; ++i) {
    std::swap(places[i], places[i + rng.below(places.size() - i)]);
    int32_t& id = ids[places[i]];
    targets.push_back({static_cast<int32_t>(places[i]), id});
    const double u = rng.uniform();
    if (u < kMasked)
      id = source_.mask;
    else if (u < kMasked + kReplaced)
      id = ordinary_[rng.below(ordinary_.size())];
  }
  return targets;
}

Batch MaskedTokens::masked_batch(const std::vector<int64_t>& samples,
                                 const std::function<Rng(size_t)>& rng_of_row) const {
  std::vector<Row> rows;
  std::vector<std::vector<Target>> targets;
  for (size_t i = 0; i < samples.size(); ++i) {
    rows.push_back(row(samples[i]));
    Rng rng = rng_of_row(i);
    targets.push_back(mask(rows.back().ids, rng));
  }
  Batch batch = rows_batch(rows);
  std::vector<int32_t> places, ids;
  for (size_t i = 0; i < targets.size(); ++i)
    for (const Target& target : targets[i]) {
      places.push_back(static_cast<int32_t>(static_cast<int64_t>(i) * batch.ids.size(1)) +
                       target.place);
      ids.push_back(target.id);
    }
  const auto count = static_cast<int64_t>(places.size());
  batch.rows = Tensor::from(places, {count});
  batch.targets = Tensor::from(ids, {count});
  return batch;
}

Batch MaskedTokens::train_batch(const std::vector<Draw>& draws) const {
  std::vector<int64_t> samples;
  for (const Draw& draw : draws) samples.push_back(draw.sample);
  return masked_batch(samples, [&](size_t i) { return draws[i].rng("mask"); });
}

Batch MaskedTokens::eval_batch(const std::vector<int64_t>& samples) const {
  return masked_batch(
      samples, [&](size_t i) { return Rng(kEvalSeed, "mask/" + std::to_string(samples[i])); });
}

}  // namespace cbwc
