// Another program, run without a shell.
#pragma once
#include <string>
#include <vector>

namespace cbwc {

struct ProcessResult {
  int exit_code = 0;  // 128 + signal when it was killed
  std::string out, err;
};

// Runs `arguments[0]` (searched in PATH) in `folder` ("": this one) and waits for its end. Error
// "PROGRAM is not installed. Install it with: apt-get install PACKAGE" when there is none.
ProcessResult run_process(const std::vector<std::string>& arguments, const std::string& package,
                          const std::string& folder = "");
std::string first_line(const std::string& text);  // the first that is not empty; for messages

}  // namespace cbwc
