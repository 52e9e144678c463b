// Carried means (method.md 5, beyond the paper): a folded stream (..., C + 1) holds C centred
// channels and, last, the mean that centring took from them. Norms leave it aside; a reader that
// is not blind gets it back.
#pragma once
#include "autograd/tape.h"

namespace cbwc {

Variable split_mean(const Variable& x);                   // (..., C) -> (..., C + 1): [P x | mean]
Variable with_mean(const Variable& x);                    // (..., C + 1) -> (..., C): what it was
Variable without_mean(const Variable& x, int64_t width);  // the first `width` channels

}  // namespace cbwc
