// Hugging Face's names and layouts of weights <-> this project's: one table per family
// (hf_tables.cpp), read in both directions.
#pragma once
#include <string>
#include <vector>

#include "experiments/config.h"
#include "layers/folding.h"

namespace cbwc {

enum class HfLayout {
  same,        // the same extents (theirs may have extents of 1 in front)
  transposed,  // GPT-2's Conv1D: (in, out)
  stacked,     // several of theirs, one below the other
  per_head,    // BLOOM's fused rows: (head, q k v, channel); ours: (q k v, head, channel)
  patches,     // a convolution's kernel (out, channels, patch, patch)
};

// One of our parameters and the tensors of a file that it is made of.
struct HfTensor {
  std::string ours;
  std::vector<std::string> theirs;
  HfLayout layout = HfLayout::same;
  int64_t leading = 0;  // extents of 1 in front of theirs
};

// A tensor that a model of this kind does not read, as a regular expression, and why. Kept: it is
// somebody's weight, so it is stored beside the model and written back; else it is a buffer.
struct HfUnread {
  std::string pattern, reason;
  bool kept = false;
};

// A second name of a tensor. A file has one of the two or both, and then twice the same numbers.
struct HfTwin {
  std::string name, owner, why;
};

// What a model of `config` is in a file. `prefix`: what all names of the body have in front in a
// file with a head ("transformer."); files of the bare body leave it out.
struct HfTable {
  std::vector<HfTensor> tensors;
  std::string prefix;
  std::vector<HfTwin> twins;
  std::vector<HfUnread> unread;
  std::string head;  // their module that the tie is about: "lm_head"
};
// `folds`: what `cbwc fold` did, which may have settled the tie.
HfTable hf_table(const Config& config, const std::vector<FoldPlan>& folds = {});
// The same with the names that a file of this architecture has: without the prefix where it is the
// bare body.
HfTable written_table(const Config& config, const std::vector<FoldPlan>& folds = {});
// The name of a tensor that the model does not read, in a file with those names. `name`: in a file
// with the prefix or without it.
std::string written_name(const Config& config, const std::string& name);
// Their module that our module is: "transformer.h.0.ln_1" of "blocks.0.norm1". Error without one.
std::string hf_module(const HfTable& table, const std::string& ours);

}  // namespace cbwc
