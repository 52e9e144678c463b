// The detector: which LayerNorms of a graph may become RMSNorms without changing the function, and
// which parameters to centre for it (the paper's Algorithm 1, completed with the readers' side;
// method.md 5). Time and memory linear in the graph, beside the lists of leaves it returns.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "autograd/analysis/zero_mean.h"

namespace cbwc {

enum class Verdict { foldable, foldable_with_auxiliary, not_foldable };
const char* verdict_name(Verdict verdict);

struct DetectedNorm {
  std::string name;  // dotted module name; a module called several times is one norm
  Verdict verdict = Verdict::not_foldable;
  std::string reason;                  // one sentence, for every verdict
  std::string blocking;                // module of the node that blocks; empty when foldable
  std::vector<std::string> leaves;     // parameters to centre for it, sorted
  std::vector<std::string> auxiliary;  // modules after which a P would be inserted
  std::vector<int> nodes;              // in the graph
  double eps = 0;
  bool carried = false;  // foldable only because removed means are carried
};

// One parameter to centre, along an axis: of the indices [start, end) every consecutive `block`.
struct CentredParameter {
  std::string parameter;
  std::string layer;  // the module that uses it
  Lane lane;
  // Parameters that share a number > 0 are centred together: their rows stacked are one group.
  int together = 0;
  // A per-channel gain to multiply into the parameter first and then to set to one (LayerScale).
  std::string scale = {};
  // Its layer gets one more output channel, the mean that it lost (CarriedMeans).
  bool carries_mean = false;
};

// A P to insert on a module's output: one centring against `serves` norms that lose theirs.
struct AuxiliaryCentring {
  std::string module;
  int value = -1;  // in the graph
  Lane lane;
  int serves = 0;
};

// Beyond the paper: readers that are not blind get the removed mean back (method.md 5). The price:
// one more channel from every layer with `carries_mean`, one centring per entry of `projected`, one
// addition per entry of `readers`.
struct CarriedMeans {
  std::vector<std::string> projected;          // norms whose output is split into P y and its mean
  std::vector<std::string> readers;            // modules in front of which the mean is added back
  std::vector<std::pair<int, int>> additions;  // the same in the graph: what value, at what node
  int serves = 0;                              // norms that fold only so
};

struct Tie {
  std::string parameter;
  std::string head;  // the module that reads it along the centred axis
  // The modules through which it writes: when it stays as it is, each gets a P on what it returns.
  std::vector<std::string> writers = {};
};

struct Detection {
  std::vector<DetectedNorm> norms;                 // in execution order
  std::vector<CentredParameter> centre;            // for the norms that are foldable
  std::vector<CentredParameter> centre_auxiliary;  // more, when the auxiliary centrings are used
  std::vector<AuxiliaryCentring> auxiliary;
  CarriedMeans carried;               // empty unless asked for
  std::vector<Tie> ties;              // of parameters in `centre` and `centre_auxiliary`
  std::vector<bool> zero_mean_nodes;  // per graph node: in some foldable norm's zero-mean graph
  double elapsed_ms = 0;              // the analysis alone

  int count(Verdict verdict) const;
};

// With carry_mean, norms that fold only with carried means are foldable too, stream by stream where
// more norms fold than centrings and additions are needed.
Detection detect(const Graph& graph, bool carry_mean = false);

}  // namespace cbwc
