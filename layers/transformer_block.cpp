#include "layers/transformer_block.h"

#include <fmt/format.h>

#include "autograd/ops/elementwise.h"
#include "layers/choices.h"

namespace cbwc {
namespace {

constexpr Choices<Placement, 2> kPlacements = {
    {{"pre", Placement::pre}, {"post", Placement::post}}};

}  // namespace

std::unique_ptr<NormLayer> block_norm(Module* block, const char* name, const BlockOptions& o,
                                      DType dtype) {
  return make_norm(block, name, o.branch.norm, o.attention.dim, o.attention.norm_eps,
                   o.attention.norm_bias, dtype);
}

Placement parse_placement(const std::string& name) {
  return parse_choice(kPlacements, name, "placement");
}
const char* placement_name(Placement placement) {
  return placement == Placement::parallel ? "parallel" : choice_name(kPlacements, placement);
}

TransformerBlock::TransformerBlock(Module* parent, const std::string& name,
                                   const BlockOptions& options, const Init& init,
                                   const Init& output_init)
    : Module(parent, name),
      placement_(options.placement),
      norm1_(block_norm(this, "norm1", options, init.dtype)),
      attention_(this, "attn", options.attention, init, output_init, options.branch),
      norm2_(options.placement == Placement::parallel
                 ? nullptr
                 : block_norm(this, "norm2", options, init.dtype)),
      mlp_(this, "mlp", options.attention.dim, mlp_width(options), options.activation, init,
           output_init, options.branch) {}

std::string TransformerBlock::describe() const {
  return fmt::format("block, {}-norm", placement_name(placement_));
}

Variable TransformerBlock::forward(const Variable& x, const Context& context, const Tensor& mask,
                                   const KvSlot& slot) {
  const ScopeGuard scope(name());
  if (placement_ == Placement::pre) {
    const Variable h = add(x, attention_.forward(norm1_->forward(x, context), context, mask, slot));
    return add(h, mlp_.forward(norm2_->forward(h, context), context));
  }
  if (placement_ == Placement::parallel) {
    const Variable u = norm1_->forward(x, context);
    return add(add(x, attention_.forward(u, context, mask, slot)), mlp_.forward(u, context));
  }
  const Variable h = norm1_->forward(add(x, attention_.forward(x, context, mask, slot)), context);
  return norm2_->forward(add(h, mlp_.forward(h, context)), context);
}

}  // namespace cbwc
