// What a forward pass is told besides its input.
#pragma once
#include <string>
#include <vector>

#include "core/rng.h"

namespace cbwc {

// Of one norm's input, over all its rows: how far it is from the zero mean that RMSNorm needs.
struct NormStatistics {
  std::string name;       // dotted module name
  double mean_ratio = 0;  // average over rows of |mean| / rms
  double rms = 0;         // average over rows
  double gain = 1;        // average |gamma|
};

struct AttentionStatistics {
  std::string name;
  double largest_logit = 0;  // of the scaled scores, after the mask
};

struct LayerStatistics {
  std::vector<NormStatistics> norms;            // in execution order
  std::vector<AttentionStatistics> attentions;  // likewise
};

struct Context {
  bool training = false;
  Rng* rng = nullptr;                     // dropout's stream; needed when training with dropout
  LayerStatistics* statistics = nullptr;  // filled when set, at the price of one more pass
  // Blocks keep their input alone and run again in the backward (layers/checkpoint_block.h).
  bool checkpoint = false;
};

}  // namespace cbwc
