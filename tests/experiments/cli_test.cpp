// Exit codes, messages and --json of the program itself.
#include <fmt/format.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <filesystem>

#include "experiments/json_output.h"
#include "tests/support/catch.h"

#ifdef CBWC_PROGRAM
using namespace cbwc;
namespace fs = std::filesystem;

namespace {

struct Ran {
  int code = -1;
  std::string text;  // stdout and stderr together
};

Ran run(const std::string& arguments) {
  Ran out;
  FILE* pipe = popen((std::string(CBWC_PROGRAM) + " " + arguments + " 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::array<char, 4096> buffer;
  for (size_t n; (n = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
    out.text.append(buffer.data(), n);
  const int status = pclose(pipe);
  out.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return out;
}

void check_mistake(const std::string& arguments, const std::string& part) {
  const Ran ran = run(arguments);
  INFO(arguments << ": " << ran.text);
  CHECK(ran.code == 2);
  CHECK(ran.text.rfind("error: ", 0) == 0);
  CHECK(ran.text.find('\n') == ran.text.size() - 1);  // one line
  CHECK(ran.text.find(part) != std::string::npos);
}

}  // namespace

TEST_CASE("mistakes are one line and exit 2") {
  check_mistake("", "subcommand");
  check_mistake("no_such_command", "no_such_command");
  check_mistake("config --no-such-option", "--no-such-option");
  check_mistake("config no_such_config", "shipped: ");
  check_mistake("config gpt_quickstart --set optim.lr=x", "expected a number");
  check_mistake("config gpt_quickstart --set optim.rl=1", "nearest known one is 'lr'");
  check_mistake("--threads many info", "threads");
  check_mistake("info --device tpu", "tpu");
  check_mistake("report /no/such/folder", "no such directory");
  check_mistake("data wordnet_lm", "--out");
  check_mistake("data no_such_data --out /tmp/x.h5", "no_such_data");
}

TEST_CASE("a number out of its range is told what was expected") {
  check_mistake("--threads 5000 info", "--threads: got 5000, expected 0 to 4096 ");
  check_mistake("eval x --text t --window 0", "--window: got 0, expected at least 1 ");
  check_mistake("eval x --batches -1", "--batches: got -1, expected at least 0 ");
  check_mistake("generate x --temperature nan",
                "--temperature: got nan, expected a number, at least 0 ");
  check_mistake("generate x --tokens few", "--tokens: got few, expected a number, at least 1 ");
  check_mistake("bench infer --seconds nan", "--seconds: got nan, expected a number");
  check_mistake("bench infer --seconds inf", "--seconds: got inf, expected a number");
  check_mistake("bench infer --memory 0", "--memory: got 0, expected above 0 ");
  check_mistake("bench infer --least-repeats 5", "expected 6 to 1000000 ");
  check_mistake("bench train x --dropout nan", "--dropout: got nan, expected a number");
  check_mistake("bench train x --dropout 1.5", "--dropout: got 1.5, expected -1 to 1 ");
  check_mistake("bench train gpt_quickstart --dropout 1", "dropout");
  check_mistake("data text --val 1.5", "--val: got 1.5, expected 0 to 1 ");
  // Every such option says it in its own words: none is left to CLI11's.
  for (const char* command : {"embed", "bench ops", "bench train", "bench loader", "bench infer",
                              "equiv", "data", "eval", "generate"}) {
    const Ran ran = run(std::string(command) + " --help");
    const std::string& help = ran.text;
    INFO(command << ": " << help);
    REQUIRE(ran.code == 0);
    for (const char* other : {"POSITIVE", "NONNEGATIVE", "INT in [", "FLOAT in ["})
      CHECK(help.find(other) == std::string::npos);
  }
}

TEST_CASE("each --set takes one value, before the config as well as behind it") {
  const Ran ran = run("config --set run.steps=700 --set optim.warmup=3 gpt_quickstart");
  INFO(ran.text);
  CHECK(ran.code == 0);
  CHECK(ran.text.find("steps = 700") != std::string::npos);
}

TEST_CASE("each --allow takes one name") {
  check_mistake("import m --allow a b --out c", "not expected: b ");
  check_mistake("import /no/such --allow a --allow b --out c", "/no/such");
}

TEST_CASE("the GPU is refused where there is none") {
  const Ran info = run("info --quiet");
  REQUIRE(info.code == 0);
  if (info.text.find("not built in") != std::string::npos ||
      info.text.find("no GPU found") != std::string::npos)
    check_mistake("info --device cuda", "--device cuda: ");
}

TEST_CASE("help, version and configs exit 0") {
  CHECK(run("--help").code == 0);
  CHECK(run("--version").text.rfind("cbwc ", 0) == 0);
  const Ran help = run("config --help");
  CHECK(help.code == 0);
  CHECK(help.text.find("--set") != std::string::npos);
  CHECK(help.text.find("--threads") != std::string::npos);
  CHECK(run("config").text.find("dropout_placement") != std::string::npos);
  const Ran complete = run("config gpt_quickstart --set model.norm=layernorm --set run.steps=77");
  CHECK(complete.code == 0);
  CHECK(complete.text.find("norm = \"layernorm\"") != std::string::npos);
  CHECK(complete.text.find("steps = 77") != std::string::npos);
}

TEST_CASE("global options: --json and --threads work before and after the command") {
  const fs::path file = fs::temp_directory_path() / fmt::format("cbwc_cli_{}.json", std::rand());
  for (const std::string& line : {fmt::format("--threads 1 --json {} info", file.string()),
                                  fmt::format("info --threads 1 --json {}", file.string())}) {
    fs::remove(file);
    REQUIRE(run(line).code == 0);
    const nlohmann::json json = read_json(file.string());
    CHECK(json["command"] == "info");
    CHECK(json["machine"]["threads"] == 1);
    CHECK(json.contains("version"));
    CHECK(json.contains("config"));
    CHECK(json["results"]["gflop_per_s"].is_number());
  }
  fs::remove(file);
}
#endif
