// Reading the HDF5 fixtures that tests/fixtures/*.py wrote.
#pragma once
#include <string>

#include "core/tensor.h"

namespace cbwc::testing {

// Dataset `name` ("group/name") of tests/fixtures/FILE, as float64. Error when there is none.
Tensor read_fixture(const std::string& file, const std::string& name);

}  // namespace cbwc::testing
