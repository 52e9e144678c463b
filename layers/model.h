// Model: the root of a module tree that a run can train, whatever its family.
#pragma once
#include "autograd/ops/cross_entropy.h"
#include "layers/context.h"
#include "layers/kv_cache.h"
#include "layers/module.h"

namespace cbwc {

// What a family does not read stays undefined; a missing one is an Error naming it.
struct ModelInput {
  Tensor ids = {};          // (B, T) int32 or int64 tokens; of the source in a translation
  Tensor mask = {};         // (B, T) int32, 0 = padding, not seen; undefined: none
  Tensor token_types = {};  // (B, T) int32; undefined: all 0
  Tensor decoder_ids = {};  // (B, S) int32: the target's tokens, shifted right
  Tensor rows = {};    // (N) int32: flat places b * T + t whose logits are wanted; undefined: all
  Tensor images = {};  // (B, channels, H, W), cast to the model's type
};

// One a row of the logits; kIgnored (-100) is not counted.
struct ModelTargets {
  Tensor ids = {};    // int32
  Tensor mixed = {};  // a second class of each row (mixup, cutmix); undefined: none
  double share = 1;   // of `ids` in the loss; the rest is `mixed`'s
};

// A pair that makes cbwc_rmsnorm differ from layernorm in training, by dotted module names.
struct InexactPair {
  std::string producer, norm, reason;
};

class Model : public Module {
 public:
  // (..., K): (B, T, vocab), (B, S, vocab), (N, vocab) with `rows`, or (B, classes).
  virtual Variable logits(const ModelInput& input, const Context& context) = 0;
  CrossEntropyResult loss(const ModelInput& input, const ModelTargets& targets,
                          const Context& context, const CrossEntropyOptions& options = {}) {
    return loss_of(logits(input, context), targets, options);
  }
  static CrossEntropyResult loss_of(const Variable& logits, const ModelTargets& targets,
                                    const CrossEntropyOptions& options = {});

  // Of the last position alone, which is all that generating text needs: ids (B, T) -> (B, vocab).
  virtual Variable last_logits(const Tensor& ids, const Context& context);

  // The same token by token: ids (B, n) come after the tokens that the cache holds, whose length
  // grows by n. (B, vocab) of the last of them; no tape. Error, with the length as it was, where
  // the cache has no room; for models that decodes() is false for, both calls.
  virtual Tensor next_logits(const Tensor& ids, KvCache& cache);
  virtual KvCache make_cache(int64_t batch, int64_t capacity) const;
  virtual bool decodes() const { return false; }

  virtual DType dtype() const = 0;
  // A small random input that every module takes part in: for recording the graph and for checks.
  virtual ModelInput example(int64_t batch, uint64_t seed) const = 0;
  // For cbwc_projected, after construction and every optimiser step: centres the stored writers in
  // place. Does nothing in the other arms.
  virtual void project_parameters() {}

 protected:
  using Module::Module;
};

}  // namespace cbwc
