// What cannot be written is one line before the work, exit 2, and nothing is left behind.
#include "experiments/out_path.h"

#include <unistd.h>

#include <filesystem>
#include <vector>

#include "core/check.h"
#include "tests/experiments/hf_fixtures.h"
#include "tests/experiments/tiny_run.h"
#include "tests/support/catch.h"

using namespace cbwc;
using namespace cbwc::testing;
namespace fs = std::filesystem;

TEST_CASE("a path is refused when it cannot become a file or a new folder") {
  const TemporaryFolder folder;
  const auto file_says = [](const std::string& path, const std::string& made = "") {
    return message_of<Error>([&] { check_can_write(path, made); });
  };
  const auto folder_says = [](const std::string& path) {
    return message_of<Error>([&] { check_new_folder(path); });
  };
  write_bytes(folder.file("plain"), "x");
  CHECK(file_says(folder.file("new.json")).empty());
  CHECK(file_says(folder.file("plain")).empty());  // is replaced
  CHECK(file_says("new.json").empty());
  CHECK(file_says(folder.path()) == folder.path() +
                                        ": is a folder; expected the name of a file to "
                                        "write");
  CHECK_THAT(file_says(folder.file("no/new.json")),
             StartsWith(folder.file("no/new.json") + ": cannot be written: the folder "));
  CHECK_THAT(file_says(folder.file("plain/new.json")), ContainsSubstring("plain is not a folder"));
  CHECK(folder_says(folder.file("a/b/c")).empty());
  CHECK(folder_says(folder.file("a/")).empty());
  CHECK_THAT(folder_says(folder.file("plain")), ContainsSubstring("exists, nothing was changed"));
  CHECK_THAT(folder_says(folder.file("plain/a/b")),
             StartsWith(folder.file("plain/a/b") + ": cannot be created: ") &&
                 ContainsSubstring("plain is not a folder"));
  CHECK(message_of<Error>([&] { check_can_make(folder.path()); }).empty());
  // In or beside the folder that will be made.
  CHECK(file_says(folder.file("a/b/new.json"), folder.file("a/b")).empty());
  CHECK(file_says(folder.file("a/new.json"), folder.file("a/b/")).empty());
  CHECK_FALSE(file_says(folder.file("a/c/new.json"), folder.file("a/b")).empty());
  CHECK_FALSE(file_says(folder.file("a/bc/new.json"), folder.file("a/b")).empty());
  CHECK(fs::exists(folder.file("plain")));
  CHECK_FALSE(fs::exists(folder.file("a")));
  if (::geteuid() == 0) return;  // root may write everywhere
  fs::create_directory(folder.file("closed"));
  fs::permissions(folder.file("closed"), fs::perms::owner_read | fs::perms::owner_exec);
  CHECK_THAT(file_says(folder.file("closed/x")), ContainsSubstring("Permission denied"));
  CHECK_THAT(folder_says(folder.file("closed/x/y")), ContainsSubstring("Permission denied"));
}

#ifdef CBWC_PROGRAM
TEST_CASE("every command finds out before its work that it cannot write") {
  const TemporaryFolder folder;
  const std::string config = folder.file("tiny.toml"), plain = folder.file("plain"),
                    gpt2 = hf_fixture("gpt2"), text = folder.file("text.txt"),
                    nowhere = folder.file("no/r.json"), out = folder.file("out");
  write_bytes(config, tiny_toml(write_tiny_data(folder)));
  write_bytes(plain, "x");
  write_bytes(text, "some words\n");
  const auto refused = [&](const std::string& arguments, const std::string& path) {
    const ProgramResult ran = run_cbwc(folder, arguments);
    INFO(arguments << "\n" << ran.out << ran.err);
    CHECK(ran.exit_code == 2);
    CHECK(ran.out.empty());
    CHECK_THAT(ran.err, StartsWith("error: " + path + ": "));
    CHECK(ran.err.find('\n') == ran.err.size() - 1);
    CHECK_FALSE(fs::exists(out));
  };
  const std::string to = " --out " + out;
  for (const std::string& command : std::vector<std::string>{
           "fold " + gpt2 + to, "import " + gpt2 + to, "export " + gpt2 + to, "detect " + gpt2,
           "eval " + gpt2 + " --text " + text, "generate " + gpt2, "bench ops", "info", "config",
           "bench infer " + config, "bench train " + config, "bench loader " + config,
           "equiv " + config, "train " + config + to, "compare " + config + to,
           "train " + config + " --set run.out=" + out, "report " + folder.path(),
           "embed " + hf_fixture("bert_model") + " --input " + text + " --out " + out + ".jsonl",
           "data text --input " + text + " --out " + out + ".h5"})
    refused(command + " --json " + nowhere, nowhere);
  refused("info --json " + folder.path(), folder.path());
  const std::string below = plain + "/x";
  for (const std::string& command :
       {"fold " + gpt2, "import " + gpt2, "export " + gpt2, "train " + config, "compare " + config})
    refused(command + " --out " + below, below);
  refused("detect " + gpt2 + " --dot " + nowhere, nowhere);
  refused("equiv " + config + " --dump " + nowhere, nowhere);
  refused("bench infer " + config + " --table " + nowhere, nowhere);
  refused("embed x --input " + text + " --out " + folder.file("no/v.jsonl"),
          folder.file("no/v.jsonl"));
  refused("data text --input " + text + " --out " + folder.file("no/d.h5"), folder.file("no/d.h5"));
  // In the folder that the command makes it may lie.
  const ProgramResult fold = run_cbwc(folder, "fold " + gpt2 + to + " --json " + out + "/f.json");
  INFO(fold.err);
  CHECK(fold.exit_code == 0);
  CHECK(fs::exists(out + "/f.json"));
}
#endif
