#include "autograd/ops/norm_arguments.h"

#include <cmath>

namespace cbwc {

void check_norm_arguments(const char* who, const Variable& x, const Variable& gamma,
                          const Variable& beta, double eps) {
  CBWC_CHECK(x.defined() && x.rank() >= 1 && x.size(-1) >= 1, who,
             ": x needs a last axis of at least one element");
  CBWC_CHECK(eps >= 0 && std::isfinite(eps), who, ": eps is ", eps, ", expected 0 or more");
  for (const auto& [name, v] : {std::pair{"gamma", &gamma}, std::pair{"beta", &beta}}) {
    if (!v->defined()) continue;
    CBWC_CHECK(v->rank() == 1 && v->size(0) == x.size(-1), who, ": ", name, " has the shape ",
               to_string(v->shape()), ", the last axis of x is ", x.size(-1));
    CBWC_CHECK(v->dtype() == x.dtype(), who, ": ", name, " is ", dtype_name(v->dtype()), ", x is ",
               dtype_name(x.dtype()));
    CBWC_CHECK(v->value().device() == x.value().device(), who, ": ", name,
               " and x are on different devices");
  }
}

}  // namespace cbwc
