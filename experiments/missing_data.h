// The data set that a config names but that is not there yet (data.build).
#pragma once
#include "experiments/config.h"

namespace cbwc {

// Makes config.data.file as `cbwc data` would, saying so; does nothing when the file exists or the
// config does not say how. Error for a data.build that `cbwc data` does not understand.
void make_missing_data(const Config& config);

}  // namespace cbwc
