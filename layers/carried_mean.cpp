#include "layers/carried_mean.h"

#include "autograd/ops/center.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"

namespace cbwc {

Variable split_mean(const Variable& x) {
  return concat({center(x, -1), mean(x, {x.rank() - 1}, true)}, -1);
}

Variable with_mean(const Variable& x) {
  const int64_t width = x.size(-1) - 1;
  const Variable centred = slice(x, -1, 0, width), mean = slice(x, -1, width, width + 1);
  return add(centred, mean);
}

Variable without_mean(const Variable& x, int64_t width) {
  return x.size(-1) == width ? x : slice(x, -1, 0, width);
}

}  // namespace cbwc
