// Cross-entropy summed over the rows whose target is not ignored. With none left: loss 0, gradient
// 0, count 0 (cases.md P46). A target outside [0, V) is an Error naming index and value.
#pragma once
#include "autograd/tape.h"

namespace cbwc {

struct CrossEntropyOptions {
  int64_t ignore_index = -100;
  double label_smoothing = 0;  // in [0, 1)
};

struct CrossEntropyResult {
  Variable loss_sum;  // one element, shape (), in the logits' dtype
  int64_t count = 0;  // rows not ignored
};

// Keeps the logits. The backward turns them into their gradient in place when nobody else holds
// them and the tape does not keep its data: the largest buffer of a language model exists once.
class CrossEntropyOp : public Op {
 public:
  CrossEntropyOp(Tensor logits, Tensor targets, Tensor lse, CrossEntropyOptions options)
      : logits_(std::move(logits)),
        targets_(std::move(targets)),
        lse_(std::move(lse)),
        options_(options) {}
  const char* name() const override { return "cross_entropy"; }
  void backward(Gradients& g) override;
  void release() override { logits_ = targets_ = lse_ = {}; }

 private:
  Tensor logits_, targets_, lse_;
  CrossEntropyOptions options_;
};

// logits (N, V) or (..., V); targets int32 or int64 with the leading shape (or N elements).
CrossEntropyResult cross_entropy(const Variable& logits, const Tensor& targets,
                                 const CrossEntropyOptions& options = {});

}  // namespace cbwc
