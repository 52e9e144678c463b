// A control for an equivalence check: is a difference what rounding alone makes here?
#pragma once
#include <map>

#include "experiments/equiv.h"

namespace cbwc {

// Note [What rounding does]: two things can part models that are equal in exact arithmetic. Past a
// stable learning rate training is chaotic: rounding grows by a factor a step, until two copies of
// one method are far apart. And a gradient that is zero in exact arithmetic (the bias of a norm on
// keys) is nothing but rounding, large or small. So where a strict bound fails, a control runs
// beside the two: the reference with the last bit of every weight changed. Within rounding is what
// stays below the strict bound or a multiple of the control's difference: tensor by tensor for
// the gradients, after EVERY step for the weights (of the control's largest so far). The steps'
// factor is for spurts that one of them makes some steps earlier: candidate over control was
// between 0.5 and 46 in fifteen small models driven to chaos, mostly near 1. A mistake in the
// method shows in other tensors and in the first steps, where the control has not grown (near 1e-11
// in float64, so that the factor allows no more than the strict bound): neither excuses it. Outputs
// and loss have no such allowance.
constexpr double kGradientFactor = 10, kStepsFactor = 1000;
bool within_rounding(const std::vector<EquivPoint>& curve, double strict);
bool within_rounding(const std::map<std::string, double>& differences,
                     const std::map<std::string, double>& control, double strict);

// Of every other element of each trainable parameter towards 0, of the rest away from it. (One bit
// of one weight can be lost in the first sum that it enters, and again when a step is added to it.)
void change_last_bits(const Module& model);

std::string control_words(const EquivCase& c);  // lines for people; "" without a control
nlohmann::json curve_json(const std::vector<EquivPoint>& curve);  // [[step, difference, control]]

}  // namespace cbwc
