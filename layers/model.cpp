#include "layers/model.h"

#include "autograd/ops/elementwise.h"
#include "autograd/ops/shape.h"

namespace cbwc {

Variable Model::last_logits(const Tensor& ids, const Context& context) {
  const Variable y = logits(ModelInput{ids}, context);
  CBWC_CHECK(y.rank() == 3, "last_logits: the model gives no logits token by token: ", describe());
  return reshape(slice(y, 1, y.size(1) - 1, y.size(1)), {y.size(0), y.size(2)});
}

Tensor Model::next_logits(const Tensor&, KvCache&) {
  throw Error("next_logits: only a decoder-only language model keeps a KV cache, this is " +
              describe());
}

KvCache Model::make_cache(int64_t, int64_t) const {
  throw Error("make_cache: only a decoder-only language model keeps a KV cache, this is " +
              describe());
}

CrossEntropyResult Model::loss_of(const Variable& y, const ModelTargets& targets,
                                  const CrossEntropyOptions& options) {
  const int64_t classes = y.size(-1), rows = y.value().numel() / classes;
  CBWC_CHECK(targets.ids.numel() == rows, "model: ", targets.ids.numel(), " targets of shape ",
             to_string(targets.ids.shape()), " for logits of shape ", to_string(y.shape()));
  const Variable flat = reshape(y, {rows, classes});
  CrossEntropyResult result = cross_entropy(flat, targets.ids.reshape({rows}), options);
  if (!targets.mixed.defined()) return result;
  CBWC_CHECK(targets.mixed.numel() == rows, "model: ", targets.mixed.numel(), " mixed targets for ",
             rows, " rows");
  const CrossEntropyResult other = cross_entropy(flat, targets.mixed.reshape({rows}), options);
  result.loss_sum =
      add(scale(result.loss_sum, targets.share), scale(other.loss_sum, 1 - targets.share));
  return result;
}

}  // namespace cbwc
