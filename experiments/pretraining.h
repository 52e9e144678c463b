// run.pretrain: the run that another one starts from, in the same arm and with the same seed.
#pragma once
#include <string>

#include "experiments/train_run.h"

namespace cbwc {

// Trains what request.config asks for as its start, in DIR_pretrain, or goes on with it; its
// directory. Error, before anything is trained, when either config is wrong or the weights of one
// could not start the other. RunError when it diverges.
std::string pretrained(const RunRequest& request);

}  // namespace cbwc
