// How a model runs its blocks: plainly, or, with context.checkpoint and a tape, checkpointed
// (autograd/checkpoint.h): the same bits for less memory and one more forward pass.
#pragma once
#include <functional>
#include <vector>

#include "autograd/checkpoint.h"
#include "layers/context.h"

namespace cbwc {

// body(inputs, context). Every Variable that it reads must be among the inputs (the encoder's
// output, an attention bias made once for all blocks); it must use the context it is given.
using BlockBody = std::function<Variable(const std::vector<Variable>&, const Context&)>;
Variable run_block(const std::vector<Variable>& inputs, const Context& context, BlockBody body);

// A block that is forward(x, context). It must outlive the backward.
template <class Block>
Variable run_block(Block& block, const Variable& x, const Context& context) {
  return run_block({x}, context, [&block](const std::vector<Variable>& in, const Context& c) {
    return block.forward(in[0], c);
  });
}

}  // namespace cbwc
