// The arithmetic of the fold: sums in float64, each element rounded once to its own type; at most
// the parameter at hand is copied, and only where it is not contiguous.
#pragma once
#include <vector>

#include "autograd/analysis/zero_mean.h"
#include "autograd/parameter.h"

namespace cbwc {

// The groups of a parameter along its lane; each element is multiplied by its channel's `scale`
// (null: none) first.
struct CentredLanes {
  ParameterPtr parameter;
  Lane lane;
  ParameterPtr scale;  // as many numbers as the parameter's extent along the lane's axis
};

// One entry: each of its groups minus its mean. More: their rows stacked are one group.
void centre_group(const std::vector<CentredLanes>& group);

// Of a lane that is a whole axis: the groups' means (extent 1 along it), and the parameter with
// them as one more element at its end.
Tensor means_along(const CentredLanes& lanes);
void append_along(const CentredLanes& lanes, const Tensor& means);
Tensor row_means(const Tensor& table);                             // (V, C) -> (V)
void scale_columns(Tensor& weight, const Tensor& gamma);           // W diag(gamma)
void add_product(const Tensor& w, const Tensor& beta, Tensor& b);  // b + W beta

}  // namespace cbwc
