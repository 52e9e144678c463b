#include "tests/experiments/tiny_run.h"

#include <sys/wait.h>

#include <cstdlib>

#include "core/rng.h"
#include "data/token_file.h"
#include "tests/support/catch.h"

namespace cbwc::testing {

std::string write_tiny_data(const TemporaryFolder& folder, const std::string& name) {
  TokenFile file(Tokenizer::bytes(), "a test");
  Rng rng(5, "tiny data");
  const char* const words[] = {"norm ", "mean ", "the ", "a ", "row of ", "is zero. "};
  for (const auto& [split, documents] :
       {std::pair<const char*, int>{"train", 120}, {"val", 12}, {"test", 12}})
    for (int d = 0; d < documents; ++d) {
      std::string text;
      for (int w = 0; w < 8; ++w) text += words[rng.below(6)];
      std::vector<int32_t> ids = file.tokenizer().encode(text);
      ids.push_back(file.tokenizer().end_of_document());
      file.writable_split(split).append(ids, file.vocab_size());
    }
  const std::string path = folder.file(name);
  file.write(path);
  return path;
}

std::string tiny_toml(const std::string& data) {
  return "[run]\nsteps = 12\nseeds = [1]\nlog_every = 2\neval_every = 6\neval_batches = 2\n"
         "checkpoint_every = 3\n[model]\nlayers = 2\ndim = 16\nheads = 2\ncontext = 16\n"
         "norm = \"cbwc_rmsnorm\"\ndropout = 0.1\n[data]\nfile = \"" +
         data + "\"\nbatch = 4\n[optim]\nlr = 3e-3\nwarmup = 2\naccumulate = 2\n";
}

Config tiny_config(const std::string& data, const std::vector<std::string>& extra) {
  return parse_config(tiny_toml(data), "tiny.toml", extra);
}

ProgramResult run_cbwc(const TemporaryFolder& folder, const std::string& arguments,
                       const std::string& before) {
  const std::string out = folder.file("stdout"), err = folder.file("stderr");
  const std::string line = before + " " + std::string(CBWC_PROGRAM) + " --threads 1 " + arguments +
                           " >" + out + " 2>" + err + " </dev/null";
  const int status = std::system(line.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), read_bytes(out),
          read_bytes(err)};
}

}  // namespace cbwc::testing
