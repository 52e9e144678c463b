// Small kernels that break (or, the last, keep) CUDA's rules, to test the emulation itself.
#pragma once

namespace cbwc::emulated {

void probe_skipped_barrier();  // one thread ends before the barrier
void probe_two_barriers();     // the two branches have a barrier each
void probe_skipped_shuffle();  // one lane of the mask waits elsewhere
void probe_foreign_lane();     // the mask names lanes beyond the block
void probe_shared_overrun();
void probe_good();  // throws Error when a shuffle or a barrier gives wrong values

}  // namespace cbwc::emulated
