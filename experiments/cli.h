// The program: parses the command line, runs one command, turns exceptions into one line and an
// exit code (0 done, 1 run or check failed, 2 bad input).
#pragma once

namespace cbwc {

int run_program(int argc, char** argv);

}  // namespace cbwc
