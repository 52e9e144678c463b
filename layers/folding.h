// Folding LayerNorm into RMSNorm exactly (method.md 5): what the detector found is applied to the
// numbers of a model. Order: settle the tie, multiply LayerScales in, centre every writer (in
// float64, rounded once), switch the norms, which keep their eps, gain and bias; then, if asked,
// fold gains and biases into their readers. Everything outside `model` is untouched.
#pragma once
#include <string>
#include <vector>

#include "autograd/analysis/detector.h"
#include "layers/module.h"

namespace cbwc {

// A head that shares the embedding's table, once that table is centred (method.md 5):
//   rank_one  the tie stays, the head adds sum(h) r with each row's mean r
//   untie     the head gets a copy of the table as it was
//   runtime   the table stays as it was, the embedding's output is centred at run time
enum class HeadTie { rank_one, untie, runtime };
HeadTie parse_head_tie(const std::string& name);
const char* head_tie_name(HeadTie tied);

struct FoldOptions {
  HeadTie tied = HeadTie::rank_one;
  bool auxiliary_centring = false;
};

// A norm's gain and bias folded into the Linears that read it: W diag(gamma), b + W beta; then
// gamma is one and beta zero. `skipped` says why not (cases.md P28).
struct AffineFold {
  struct Reader {
    std::string module, weight, bias;  // parameters; no bias: ""
  };
  std::string norm, gamma, beta;  // parameters; no beta: ""
  std::vector<Reader> readers;
  std::string skipped;
};

// What will be, or was, done to a model; written into the checkpoint's provenance.
struct FoldPlan {
  std::vector<std::string> norms;  // modules that become RMSNorm
  std::vector<CentredParameter> centre;
  std::vector<std::string> auxiliary;  // modules whose output is centred at run time
  std::vector<Tie> ties;
  HeadTie tied = HeadTie::rank_one;
  std::vector<AffineFold> affine = {};
  CarriedMeans carried = {};
  bool empty() const { return norms.empty(); }
  std::vector<std::string> changed_parameters() const;  // whose optimiser moments are void; sorted
};

// With HeadTie::runtime a tied table is not centred: its embedding joins `auxiliary`.
FoldPlan plan_fold(const Detection& detection, const FoldOptions& options);

// Adds to the plan, for each of its norms, the gain and bias fold or the reason against it: every
// reader must be a Linear whose weight is a parameter of no other use, with a bias where beta is
// not zero. `graph` is the one the plan was made from, `model` its model.
void plan_affine(const Graph& graph, const Module& model, FoldPlan& plan);

// Applies the plan. Error, with the model unchanged, when a module or parameter of the plan is not
// there, is of another kind, or holds a number that is not finite.
void apply_fold(Module& model, const FoldPlan& plan);

// Gives a model that was built from its config the structure that apply_fold() gave the folded one
// (norms, run-time centrings, carried means, settled ties), so that the folded values can be read
// into it. What its config says already stays. Error naming what does not fit.
void apply_structure(Module& model, const FoldPlan& plan);

}  // namespace cbwc
