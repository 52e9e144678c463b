// Hugging Face's names and layouts of weights <-> this project's: one table per family
// (hf_tables.cpp), read in both directions.
#pragma once
#include <string>
#include <vector>

#include "experiments/config.h"

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

// What a model of `config` is in a file. `prefix`: what all names of the body have in front in a
// file with a head ("transformer."); files of the bare body leave it out.
struct HfTable {
  std::vector<HfTensor> tensors;
  std::string prefix;
  // A second name of one of our parameters: (theirs, theirs of the owner). Empty when untied.
  std::string tied, tied_to;
  // Tensors that a model of this kind does not read, as regular expressions, each with the reason.
  std::vector<std::pair<std::string, std::string>> unread;
};
HfTable hf_table(const Config& config);

}  // namespace cbwc
