// A model and a data set small enough to train in milliseconds, and the program as a child process.
#pragma once
#include <string>
#include <vector>

#include "experiments/config.h"
#include "tests/data/temporary_folder.h"

namespace cbwc::testing {

// Writes a token file of repetitive text; the path.
std::string write_tiny_data(const TemporaryFolder& folder, const std::string& name = "tiny.h5");

// 2 layers of width 16, context 16; `extra` are "section.key=value".
std::string tiny_toml(const std::string& data);
Config tiny_config(const std::string& data, const std::vector<std::string>& extra = {});

struct ProgramResult {
  int exit_code = 0;
  std::string out, err;
};
// Runs the program with these shell words; each must be quoted as the shell needs it. `before`:
// commands of the same shell that come first, "ulimit -f 10;".
ProgramResult run_cbwc(const TemporaryFolder& folder, const std::string& arguments,
                       const std::string& before = "");

}  // namespace cbwc::testing
