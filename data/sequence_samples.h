// The samples of a sequence file as batches, padded to the longest row of each batch. Texts that do
// not fit into the context are cut, and counted once when the samples are opened.
#pragma once
#include <functional>
#include <memory>

#include "data/samples.h"
#include "data/sequence_file.h"

namespace cbwc {

class TextSamples : public Samples {
 public:
  int64_t size() const override { return split_->size(); }
  int64_t length(int64_t sample) const override;  // of its row, specials included, cut
  Batch train_batch(const std::vector<Draw>& draws) const override;  // as eval_batch by default
  int64_t truncated() const { return truncated_; }
  int64_t dropped() const { return split_->size() - size(); }

 protected:
  // Error when the file's samples are not of `kind` or the context is below 3.
  TextSamples(const SequenceFile& file, SequenceKind kind, const std::string& split,
              int64_t context);
  void count_truncated();                                 // for constructors
  virtual int64_t full_length(int64_t sample) const = 0;  // of the row, not cut
  std::shared_ptr<const SequenceSplit> split_;
  SpecialTokens source_, target_;
  int64_t vocab_ = 0, context_ = 0, truncated_ = 0;
};

// [CLS] text [SEP], or [CLS] text [SEP] second [SEP] with token types 0 and 1, cut from the right
// ends (of two texts the longer one, token by token). With a tokenizer that has no [CLS] and [SEP]:
// its begin and end. Batch: ids, mask, token_types, targets (B) = class.
class TextClassification : public TextSamples {
 public:
  TextClassification(const SequenceFile& file, const std::string& split, int64_t context);
  Batch eval_batch(const std::vector<int64_t>& samples) const override;

 protected:
  struct Row {
    std::vector<int32_t> ids, types;
  };
  Row row(int64_t sample) const;
  Batch rows_batch(const std::vector<Row>& rows) const;  // ids, mask, token_types
  int64_t full_length(int64_t sample) const override;
};

// Masked language modelling over the same rows; the classes are not read. Of a row's m ordinary
// tokens, max(1, round(probability m)) are selected: a random subset. Specials, [UNK] and padding
// never are. A selected token becomes [MASK] with probability 0.8, a random ordinary token (which
// may equal it) with 0.1, and stays with 0.1. Training: a function of (seed, epoch, sample);
// evaluation: of the sample alone. Batch: ids, mask, token_types, rows and targets (N).
class MaskedTokens : public TextClassification {
 public:
  MaskedTokens(const SequenceFile& file, const std::string& split, int64_t context,
               double probability);
  Batch train_batch(const std::vector<Draw>& draws) const override;
  Batch eval_batch(const std::vector<int64_t>& samples) const override;

 private:
  struct Target {
    int32_t place, id;  // in its row; before masking
  };
  std::vector<Target> mask(std::vector<int32_t>& ids, Rng& rng) const;
  Batch masked_batch(const std::vector<int64_t>& samples,
                     const std::function<Rng(size_t)>& rng_of_row) const;
  double probability_;
  std::vector<int32_t> ordinary_;  // the ids that a random token is drawn from
};

// Batch: ids and mask = source + end; decoder_ids = begin + target; targets = target + end, where a
// row's padding is kIgnoredTarget. Both sides are cut to the context, the end stays.
class TranslationPairs : public TextSamples {
 public:
  TranslationPairs(const SequenceFile& file, const std::string& split, int64_t context);
  Batch eval_batch(const std::vector<int64_t>& samples) const override;

 protected:
  int64_t full_length(int64_t sample) const override;  // the longer side
};

// For a left-to-right model, without a mask: ids = prompt + answer, targets = the next token where
// it belongs to the answer or ends it, kIgnoredTarget elsewhere. Too long: the prompt loses tokens
// at its left, never the answer; a sample whose answer leaves no room for one token of the prompt
// is left out and counted.
class Instructions : public TextSamples {
 public:
  Instructions(const SequenceFile& file, const std::string& split, int64_t context);
  int64_t size() const override { return static_cast<int64_t>(kept_.size()); }
  int64_t length(int64_t sample) const override;
  Batch eval_batch(const std::vector<int64_t>& samples) const override;

 protected:
  int64_t full_length(int64_t stored) const override;

 private:
  std::vector<int64_t> kept_;  // stored samples
};

}  // namespace cbwc
