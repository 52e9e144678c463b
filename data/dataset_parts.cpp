#include "data/dataset_parts.h"

#include <algorithm>

#include "core/check.h"
#include "data/hash.h"

namespace cbwc {

void check_split(const SplitOptions& split) {
  CBWC_CHECK(split.val >= 0 && split.test >= 0 && split.val + split.test < 1,
             "data: the fractions val ", split.val, " and test ", split.test,
             " must be at least 0 and leave something to train on");
}

const char* split_for(const std::string& key, const SplitOptions& split) {
  const double u = static_cast<double>(hash64(key.data(), key.size(), split.seed) >> 11) * 0x1p-53;
  if (u < split.val) return "val";
  return u < split.val + split.test ? "test" : "train";
}

void each_line(const std::string& text, const std::function<bool(const std::string&, int64_t)>& f) {
  int64_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    if (!f(text.substr(begin, end - begin), ++number)) return;
    begin = end + 1;
  }
}

std::string empty_split_warning(const std::string& split, const std::string& things, int64_t count,
                                const std::string& keys, int64_t different) {
  const std::string start =
      fmt::format("no {} fell into {}: ", things.substr(0, things.size() - 1), split);
  const std::string remedy =
      split == kSplitNames[0] ? "use more of them" : "use more of them, or a larger --" + split;
  if (different < count)
    return fmt::format("{}the {} {} have only {} different {}, and equal ones share a split; {}",
                       start, count, things, different, keys, remedy);
  return fmt::format("{}{} {} are few; {}", start, count, things, remedy);
}

void add_warnings(DatasetSummary& summary, const TextCounts& counts, const SplitOptions& split,
                  const std::string& keys, int64_t different) {
  for (size_t i = 0; i < kSplitNames.size(); ++i) {
    const bool wanted = i == 0 || (i == 1 ? split.val : split.test) > 0;
    if (wanted && summary.splits[i].tokens == 0)
      summary.warnings.push_back(
          empty_split_warning(kSplitNames[i], summary.unit, counts.documents, keys, different));
  }
  if (counts.replaced > 0)
    summary.warnings.push_back(
        fmt::format("{} bytes that are not UTF-8 were replaced by U+FFFD", counts.replaced));
}

void add_vocabulary_warning(DatasetSummary& summary, const TokenizerOptions& options,
                            const std::string& what, int64_t made) {
  if (needs_training(options) && made < options.vocab_size)
    summary.warnings.push_back(
        fmt::format("{} has {} tokens, fewer than the {} of --vocab-size: the training texts give "
                    "no more",
                    what, made, options.vocab_size));
}

SequenceBuilder::SequenceBuilder(std::string name, SequenceKind kind, SequenceBuildOptions options)
    : with_second(kind != SequenceKind::classification),
      name_(std::move(name)),
      kind_(kind),
      options_(std::move(options)) {
  check_split(options_.split);
  if (!options_.val_input.empty()) options_.split.val = 0;
  if (!options_.test_input.empty()) options_.split.test = 0;
}

std::vector<SequenceInput> SequenceBuilder::inputs(size_t files) const {
  CBWC_CHECK(!options_.input.empty(), name_, ": no input file was given (--input FILES)");
  std::vector<SequenceInput> inputs = {
      {"", options_.input}, {"val", options_.val_input}, {"test", options_.test_input}};
  std::erase_if(inputs, [](const SequenceInput& input) { return input.files.empty(); });
  for (const SequenceInput& input : inputs)
    CBWC_CHECK(files == 0 || input.files.size() == files, name_, ": ", input.files.size(),
               input.files.size() == 1 ? " file was" : " files were", " given for the ",
               input.split.empty() ? "train" : input.split, " input, expected ", files);
  return inputs;
}

TextOptions SequenceBuilder::text_options() const {
  return {.documents = Documents::line, .replace_invalid = options_.replace_invalid};
}

bool SequenceBuilder::add(const SequenceInput& input, const std::string& key,
                          SequenceSample sample) {
  int64_t& taken = taken_[input.split];
  if (options_.max_samples > 0 && taken >= options_.max_samples) return false;
  ++taken;
  if (input.split.empty()) keys_.insert(key);
  samples_.emplace_back(input.split.empty() ? split_for(key, options_.split) : input.split,
                        std::move(sample));
  return true;
}

Tokenizer SequenceBuilder::tokenizer(bool first, bool second) const {
  if (!needs_training(options_.tokenizer)) return make_tokenizer(options_.tokenizer);
  std::vector<std::string> texts;
  for (const auto& [split, sample] : samples_) {
    if (split != kSplitNames[0]) continue;
    if (first) texts.push_back(sample.first);
    if (second) texts.push_back(sample.second);
  }
  return make_tokenizer(options_.tokenizer, texts);
}

// A class that no training sample has is never learnt.
void SequenceBuilder::add_class_warnings(DatasetSummary& summary) const {
  if (kind_ != SequenceKind::classification) return;
  constexpr size_t kMostNamed = 5;
  std::vector<std::array<int64_t, kSplitNames.size()>> counts(classes.size());
  for (const auto& [split, sample] : samples_)
    ++counts[static_cast<size_t>(sample.label)][split_index(split)];
  size_t found = 0;
  std::string named;
  for (size_t i = 0; i < classes.size(); ++i) {
    const auto& [train, val, test] = counts[i];
    if (train > 0 || found++ >= kMostNamed) continue;
    named += fmt::format("{}'{}' ({} in val, {} in test)", named.empty() ? "" : ", ", classes[i],
                         val, test);
  }
  if (found > 0)
    summary.warnings.push_back(fmt::format("{} of {} classes have no training sample: {}{}", found,
                                           classes.size(), named,
                                           found > kMostNamed ? ", ..." : ""));
}

DatasetSummary SequenceBuilder::finish() {
  CBWC_CHECK(!samples_.empty(), name_, ": no sample was found in the input");
  const bool two = two_tokenizers;
  CBWC_CHECK(!two || needs_training(options_.tokenizer), name_,
             ": two tokenizers are made from the texts: choose wordpiece or sentencepiece, without "
             "a file of one");
  std::optional<Tokenizer> target;
  if (two) target = tokenizer(false, true);
  SequenceFile file(kind_, tokenizer(true, with_second && !two), target, classes, description);
  for (const auto& [split, sample] : samples_) file.add(split, sample, with_second);
  file.write(options_.out);
  counts.documents = samples();
  DatasetSummary summary;
  summary.name = name_;
  summary.out = options_.out;
  summary.tokenizer = file.tokenizer().kind();
  summary.checksum = file.checksum();
  summary.vocab_size = file.tokenizer().vocab_size();
  summary.text = counts;
  summary.unit = "samples";
  summary.facts = facts;
  if (two) summary.facts.emplace_back("vocabulary of the target", target->vocab_size());
  if (!classes.empty()) summary.facts.emplace_back("classes", static_cast<int64_t>(classes.size()));
  for (size_t i = 0; i < kSplitNames.size(); ++i) {
    const auto split = file.split(kSplitNames[i]);
    summary.splits[i] = {kSplitNames[i], split->size(), split->first.size() + split->second.size()};
  }
  summary.warnings = warnings;
  const std::string first = two ? "the source's vocabulary" : "the vocabulary";
  add_vocabulary_warning(summary, options_.tokenizer, first, summary.vocab_size);
  if (two)
    add_vocabulary_warning(summary, options_.tokenizer, "the target's vocabulary",
                           target->vocab_size());
  add_class_warnings(summary);
  add_warnings(summary, counts, options_.split, keys, std::ssize(keys_));
  return summary;
}

}  // namespace cbwc
