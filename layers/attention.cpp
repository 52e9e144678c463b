#include "layers/attention.h"

#include <fmt/format.h>

#include <cmath>

#include "autograd/ops/rotary.h"
#include "autograd/ops/shape.h"
#include "layers/choices.h"

namespace cbwc {
namespace {

constexpr Choices<QkNorm, 3> kQkNorms = {
    {{"none", QkNorm::none}, {"rmsnorm", QkNorm::rmsnorm}, {"layernorm", QkNorm::layernorm}}};

// Checked before the layers are built, so that the message names the cause.
SelfAttentionOptions checked(const SelfAttentionOptions& o, const std::string& path) {
  CBWC_CHECK(o.dim > 0 && o.heads > 0 && o.dim % o.heads == 0, path, ": dim ", o.dim,
             " is not divisible by heads ", o.heads);
  CBWC_CHECK(o.dropout >= 0 && o.dropout < 1, path, ": dropout must lie in [0, 1), got ",
             o.dropout);
  const int64_t width = o.dim / o.heads;
  CBWC_CHECK(o.rotary >= 0 && o.rotary % 2 == 0 && o.rotary <= width, path,
             ": the channels turned by rotary positions must be even and at most the head's ",
             width, ", got ", o.rotary);
  return o;
}

}  // namespace

QkNorm parse_qk_norm(const std::string& name) { return parse_choice(kQkNorms, name, "qk_norm"); }
const char* qk_norm_name(QkNorm norm) { return choice_name(kQkNorms, norm); }

SelfAttention::SelfAttention(Module* parent, const std::string& name,
                             const SelfAttentionOptions& options, const Init& init,
                             const Init& output_init, const BranchOptions& branch)
    : Module(parent, name),
      options_(checked(options, path())),
      slopes_(options.alibi ? Tensor::from(alibi_slopes(options.heads), {options.heads})
                            : Tensor()),
      qkv_(this, "qkv", options.dim, 3 * options.dim, true, init),
      out_(this, "out", options.dim, options.dim, output_init, branch) {
  if (options_.qk_norm == QkNorm::none) return;
  const Norm norm = options_.qk_norm == QkNorm::rmsnorm ? Norm::rmsnorm : Norm::layernorm;
  const int64_t width = options_.dim / options_.heads;
  for (auto& [layer, label] : {std::pair{&q_norm_, "q_norm"}, std::pair{&k_norm_, "k_norm"}}) {
    *layer = make_norm(this, label, norm, width, options_.norm_eps, options_.norm_bias, init.dtype);
  }
}

std::string SelfAttention::describe() const {
  return fmt::format("{}attention {}, {} heads, qk norm {}, dropout {}",
                     options_.causal ? "causal " : "", options_.dim, options_.heads,
                     qk_norm_name(options_.qk_norm), options_.dropout);
}

std::vector<double> alibi_slopes(int64_t heads) {
  int64_t power = 1;
  while (2 * power <= heads) power *= 2;
  std::vector<double> out;
  const auto slope = [](int64_t h, int64_t n) {
    return std::exp2(-8.0 * static_cast<double>(h) / static_cast<double>(n));
  };
  for (int64_t h = 1; h <= power; ++h) out.push_back(slope(h, power));
  for (int64_t h = 1; h <= heads - power; ++h) out.push_back(slope(2 * h - 1, 2 * power));
  return out;
}

Variable run_attention(const Module& module, double dropout, const Context& context,
                       AttentionOptions options,
                       const std::function<Variable(const AttentionOptions&)>& attend) {
  if (context.training && dropout > 0) {
    CBWC_CHECK(context.rng != nullptr, module.path(),
               ": dropout in training needs a random stream");
    options.dropout = dropout;
    options.rng = context.rng;
  }
  AttentionStatistics statistics{module.path(), 0};
  if (context.statistics != nullptr) options.track_max = &statistics.largest_logit;
  const Variable y = attend(options);
  if (context.statistics != nullptr) context.statistics->attentions.push_back(statistics);
  return y;
}

Variable SelfAttention::attend(const Variable& qkv, const Context& context, const Tensor& mask,
                               const KvSlot& slot) {
  AttentionOptions options;
  options.causal = options_.causal;
  options.key_mask = mask;
  options.alibi_slopes = slopes_;
  return run_attention(
      *this, options_.dropout, context, options, [&](const AttentionOptions& o) -> Variable {
        if (q_norm_ == nullptr && options_.rotary == 0 && slot.layer == nullptr)
          return attention_qkv(qkv, options_.heads, o);
        const int64_t c = options_.dim;
        const Shape split = {qkv.size(0), qkv.size(1), options_.heads, c / options_.heads};
        const auto heads = [&](int part, NormLayer* norm, bool turn) {
          Variable x = reshape(slice(qkv, 2, part * c, (part + 1) * c), split);
          if (norm != nullptr) x = norm->forward(x, context);
          if (turn && options_.rotary > 0) x = rotary(x, {options_.rotary, slot.length});
          return permute(x, {0, 2, 1, 3});
        };
        const Variable q = heads(0, q_norm_.get(), true), k = heads(1, k_norm_.get(), true);
        const Variable v = heads(2, nullptr, false);
        if (slot.layer == nullptr) return attention(q, k, v, o);
        const KvCache::Layer seen = slot.append(k.value(), v.value());
        return attention(q, seen.keys, seen.values, o);
      });
}

Variable SelfAttention::forward(const Variable& x, const Context& context, const Tensor& mask,
                                const KvSlot& slot) {
  const ScopeGuard scope(name());
  return out_.forward(attend(qkv_.forward(x), context, mask, slot), context);
}

}  // namespace cbwc
