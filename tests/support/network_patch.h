// Other parameter values for a random network: centred as a detection or a fold's plan asks, by
// code of its own; put back at the end.
#pragma once
#include "autograd/analysis/detector.h"
#include "tests/support/random_network.h"

namespace cbwc::testing {

class NetworkPatch {
 public:
  explicit NetworkPatch(const RandomNetwork& net) : net_(net) {
    for (const auto& [name, p] : net.parameters()) original_[name] = p->value().clone();
  }
  ~NetworkPatch() {
    for (const auto& [name, value] : original_) set(name, value);
  }
  NetworkPatch(const NetworkPatch&) = delete;
  NetworkPatch& operator=(const NetworkPatch&) = delete;

  const Tensor& original(const std::string& name) const { return original_.at(name); }
  Tensor value(const std::string& name) const { return net_.parameters().at(name)->value(); }
  void set(const std::string& name, const Tensor& value) {
    net_.parameters().at(name)->mutate().copy_from(value);
  }
  void centre(const std::vector<CentredParameter>& list);

 private:
  void scale(const std::vector<CentredParameter>& list);
  void centre_together(const std::vector<const CentredParameter*>& group);
  const RandomNetwork& net_;
  std::map<std::string, Tensor> original_;
};

// What the rows of a table lose when it is centred.
Tensor row_means(const Tensor& table);

}  // namespace cbwc::testing
