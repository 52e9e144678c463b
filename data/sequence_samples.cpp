#include "data/sequence_samples.h"

#include <algorithm>

#include "core/check.h"

namespace cbwc {
namespace {

using Ids = std::vector<int32_t>;
constexpr int64_t kShortestContext = 3;  // [CLS], a token, [SEP]

// (rows, the longest), filled up at the right.
Tensor padded(const std::vector<Ids>& rows, int32_t fill) {
  size_t width = 0;
  for (const Ids& row : rows) width = std::max(width, row.size());
  Tensor out =
      Tensor::empty({static_cast<int64_t>(rows.size()), static_cast<int64_t>(width)}, DType::i32);
  auto* to = out.data<int32_t>();
  for (const Ids& row : rows) {
    std::copy(row.begin(), row.end(), to);
    std::fill(to + row.size(), to + width, fill);
    to += width;
  }
  return out;
}

Tensor mask_of(const std::vector<Ids>& rows) {
  std::vector<Ids> ones;
  for (const Ids& row : rows) ones.emplace_back(row.size(), 1);
  return padded(ones, 0);
}

// The first `count` tokens, or all.
Ids head_of(const TokenSplit& split, int64_t sample, int64_t count) {
  Ids ids = split.document(sample);
  if (static_cast<int64_t>(ids.size()) > count) ids.resize(static_cast<size_t>(count));
  return ids;
}

}  // namespace

TextSamples::TextSamples(const SequenceFile& file, SequenceKind kind, const std::string& split,
                         int64_t context)
    : split_(file.split(split)),
      source_(file.tokenizer().specials()),
      target_(file.target_tokenizer().specials()),
      vocab_(file.tokenizer().vocab_size()),
      context_(context) {
  CBWC_CHECK(file.kind() == kind, file.path(), ": its samples are ", to_string(file.kind()),
             ", expected ", to_string(kind));
  CBWC_CHECK(context >= kShortestContext, "model.context is ", context, ", expected at least ",
             kShortestContext, " for ", file.path());
  CBWC_CHECK(
      split_->size() > 0, file.path(), ": the split ", split,
      " has no sample; choose another split, or build the file with more samples or a larger "
      "part for this one");
}

void TextSamples::count_truncated() {
  for (int64_t i = 0; i < split_->size(); ++i) truncated_ += full_length(i) > context_;
}

int64_t TextSamples::length(int64_t sample) const {
  return std::min(full_length(sample), context_);
}

Batch TextSamples::train_batch(const std::vector<Draw>& draws) const {
  std::vector<int64_t> samples;
  for (const Draw& draw : draws) samples.push_back(draw.sample);
  return eval_batch(samples);
}

TextClassification::TextClassification(const SequenceFile& file, const std::string& split,
                                       int64_t context)
    : TextSamples(file, SequenceKind::classification, split, context) {
  CBWC_CHECK(!split_->has_second() || context > kShortestContext + 1, "model.context is ", context,
             ", expected at least ", kShortestContext + 2, ": ", file.path(),
             " holds pairs of texts");
  count_truncated();
}

int64_t TextClassification::full_length(int64_t sample) const {
  const int64_t first = split_->first.document_size(sample) + 2;
  return split_->has_second() ? first + split_->second.document_size(sample) + 1 : first;
}

TextClassification::Row TextClassification::row(int64_t sample) const {
  const bool pair = split_->has_second();
  const int64_t room = context_ - (pair ? 3 : 2);
  int64_t a = split_->first.document_size(sample);
  int64_t b = pair ? split_->second.document_size(sample) : 0;
  const int64_t short_one = std::min(a, b), excess = std::max<int64_t>(a + b - room, 0);
  // Token by token from the longer text: first down to the other's length, then by turns.
  const int64_t from_longer = std::min(excess, std::max(a, b) - short_one);
  (a > b ? a : b) -= from_longer;
  a -= (excess - from_longer) / 2;
  b -= (excess - from_longer + 1) / 2;
  Row row;
  row.ids = head_of(split_->first, sample, a);
  row.ids.insert(row.ids.begin(), source_.begin);
  row.ids.push_back(source_.end);
  row.types.assign(row.ids.size(), 0);
  if (!pair) return row;
  const Ids second = head_of(split_->second, sample, b);
  row.ids.insert(row.ids.end(), second.begin(), second.end());
  row.ids.push_back(source_.end);
  row.types.resize(row.ids.size(), 1);
  return row;
}

Batch TextClassification::rows_batch(const std::vector<Row>& rows) const {
  std::vector<Ids> ids, types;
  for (const Row& row : rows) {
    ids.push_back(row.ids);
    types.push_back(row.types);
  }
  Batch batch;
  batch.ids = padded(ids, source_.pad);
  batch.mask = mask_of(ids);
  batch.token_types = padded(types, 0);
  return batch;
}

Batch TextClassification::eval_batch(const std::vector<int64_t>& samples) const {
  std::vector<Row> rows;
  std::vector<int32_t> classes;
  for (const int64_t sample : samples) {
    rows.push_back(row(sample));
    classes.push_back(split_->labels[static_cast<size_t>(sample)]);
  }
  Batch batch = rows_batch(rows);
  batch.targets = Tensor::from(classes, {static_cast<int64_t>(classes.size())});
  return batch;
}

TranslationPairs::TranslationPairs(const SequenceFile& file, const std::string& split,
                                   int64_t context)
    : TextSamples(file, SequenceKind::pairs, split, context) {
  count_truncated();
}

int64_t TranslationPairs::full_length(int64_t sample) const {
  return std::max(split_->first.document_size(sample), split_->second.document_size(sample)) + 1;
}

Batch TranslationPairs::eval_batch(const std::vector<int64_t>& samples) const {
  std::vector<Ids> sources, inputs, targets;
  for (const int64_t sample : samples) {
    sources.push_back(head_of(split_->first, sample, context_ - 1));
    sources.back().push_back(source_.end);
    targets.push_back(head_of(split_->second, sample, context_ - 1));
    inputs.push_back(targets.back());
    inputs.back().insert(inputs.back().begin(), target_.begin);
    targets.back().push_back(target_.end);
  }
  Batch batch;
  batch.ids = padded(sources, source_.pad);
  batch.mask = mask_of(sources);
  batch.decoder_ids = padded(inputs, target_.pad);
  batch.targets = padded(targets, kIgnoredTarget);
  return batch;
}

Instructions::Instructions(const SequenceFile& file, const std::string& split, int64_t context)
    : TextSamples(file, SequenceKind::instructions, split, context) {
  for (int64_t i = 0; i < split_->size(); ++i) {
    const bool fits = split_->second.document_size(i) < context_;
    if (fits && split_->first.document_size(i) > 0) kept_.push_back(i);
    truncated_ += fits && full_length(i) > context_;
  }
  CBWC_CHECK(!kept_.empty(), file.path(), ": no sample of the split ", split,
             " fits into the context of ", context);
}

int64_t Instructions::full_length(int64_t stored) const {
  return split_->first.document_size(stored) + split_->second.document_size(stored);
}

int64_t Instructions::length(int64_t sample) const {
  return std::min(full_length(kept_[static_cast<size_t>(sample)]), context_);
}

Batch Instructions::eval_batch(const std::vector<int64_t>& samples) const {
  std::vector<Ids> rows, targets;
  for (const int64_t sample : samples) {
    const int64_t stored = kept_[static_cast<size_t>(sample)];
    Ids prompt = split_->first.document(stored);
    const Ids answer = split_->second.document(stored);
    const int64_t excess = full_length(stored) - context_;
    if (excess > 0) prompt.erase(prompt.begin(), prompt.begin() + excess);
    Ids target(prompt.size() - 1, kIgnoredTarget);
    target.insert(target.end(), answer.begin(), answer.end());
    target.push_back(source_.end);
    prompt.insert(prompt.end(), answer.begin(), answer.end());
    rows.push_back(std::move(prompt));
    targets.push_back(std::move(target));
  }
  Batch batch;
  batch.ids = padded(rows, source_.pad);
  batch.targets = padded(targets, kIgnoredTarget);
  return batch;
}

}  // namespace cbwc
