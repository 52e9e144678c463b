// Random small networks in float64: residual streams with all kinds of norms, branches, heads and
// odd readers, made of the library's ops. One step is one op and one module. The same network runs
// again with other parameter values, with norms switched and with centrings inserted.
#pragma once
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "autograd/tape.h"
#include "core/rng.h"

namespace cbwc::testing {

struct NetworkChanges {
  std::set<std::string> rms;                // LayerNorm modules that run as RMSNorm
  std::map<std::string, int> centre_after;  // module -> axis of a P on what it returns
  std::map<std::string, Tensor> row_means;  // tied head -> what its table's rows (V) have lost
  // Modules and inputs (steps): these get back, as one number per group of the last axis, what
  // they have lost since the run `before`.
  std::set<std::pair<std::string, int>> restored;
  const std::vector<Variable>* before = nullptr;
};

class RandomNetwork {
 public:
  explicit RandomNetwork(uint64_t seed);

  // Every step's result, recorded on the active tape if there is one. `input`: which of two inputs.
  std::vector<Variable> run(const NetworkChanges& changes = {}, int input = 0) const;
  const std::vector<int>& outputs() const { return outputs_; }  // steps
  bool training() const { return training_; }
  const std::string& module(int step) const { return steps_[step].module; }
  const std::vector<int>& inputs(int step) const { return steps_[step].inputs; }
  const std::map<std::string, ParameterPtr>& parameters() const { return parameters_; }

 private:
  struct Call {
    const NetworkChanges& changes;
    Rng& dropout;
    int input;
    const std::string& module;
  };
  using Inputs = std::vector<Variable>;
  using Function = std::function<Variable(const Call&, const Inputs&)>;
  struct Step {
    std::string module;
    std::vector<int> inputs;
    Function run;
  };
  struct Weights {
    ParameterPtr weight, bias;
  };
  struct NormModule {
    std::string module;
    ParameterPtr gamma, beta;
    double eps;
  };

  bool chance(int percent) { return static_cast<int>(rng_.below(100)) < percent; }
  int64_t pick(int64_t n) { return static_cast<int64_t>(rng_.below(static_cast<uint64_t>(n))); }
  const Shape& shape(int value) const { return values_[value].shape(); }
  Tensor draw(const Shape& shape, double mean, double deviation);
  ParameterPtr parameter(const std::string& name, const Shape& shape, double mean,
                         double deviation);
  int step(const std::string& kind, std::vector<int> inputs, Function run, std::string module = {});
  int like(int value);  // any value of the same shape

  // Ops. Each returns the new value.
  int linear_of(int x, int64_t out, bool bias);
  int linear_with(int x, const Weights& w, const std::string& module = {});
  Weights new_weights(int64_t in, int64_t out, bool bias);
  int norm(int x);
  int layer_norm_of(int x, const NormModule& m);
  int activation(int x);
  int reshape_to(int x, const Shape& shape);
  int permute_to(int x, const std::vector<int>& axes);
  int channel_gain(int x);
  int drop(int x);
  int tied_head(int x);  // through the token table
  int network_input(const Shape& shape);
  // Larger pieces.
  int image_stem();
  int stem();
  int heads_attention(int x);
  int token_mixing(int x);
  int inner(int x);
  int conv1d(int x, int64_t out);
  int low_rank(int x, int64_t out);
  int projection(int x, int64_t out);
  int fused_attention(int x);
  int pointwise_conv(int x);
  int recurrent(int x);
  int through_the_table(int x);
  int branch(int x);
  int shuffle_tokens(int x);
  int shuffle_channels(int x);
  int merge(int x);
  int wild(int x);
  void side_reader(int x);
  void head(int x);

  Rng rng_;
  std::vector<Step> steps_;
  std::vector<Variable> values_;  // while it is made
  std::vector<int> outputs_;
  std::map<std::string, ParameterPtr> parameters_;
  std::vector<Weights> linears_;
  std::vector<NormModule> norms_;
  ParameterPtr table_;
  int64_t B_, T_, C_;
  bool training_;
};

}  // namespace cbwc::testing
