#include "layers/checkpoint_block.h"

namespace cbwc {

Variable run_block(const std::vector<Variable>& inputs, const Context& context, BlockBody body) {
  if (!context.checkpoint || Tape::current() == nullptr) return body(inputs, context);
  return checkpointed(
      inputs,
      [context, body = std::move(body)](const std::vector<Variable>& in,
                                        const CheckpointPass& pass) {
        Context inside = context;
        inside.rng = pass.rng;
        inside.checkpoint = false;                    // what lies in a block is made again with it
        if (pass.again) inside.statistics = nullptr;  // counted in the first pass
        return body(in, inside);
      },
      context.rng);
}

}  // namespace cbwc
