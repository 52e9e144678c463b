// What cannot be written is one line before the work, exit 2, and nothing is left behind.
#include "experiments/out_path.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <vector>

#include "core/check.h"
#include "data/atomic_file.h"
#include "experiments/json_output.h"
#include "tests/experiments/hf_fixtures.h"
#include "tests/experiments/tiny_run.h"
#include "tests/support/catch.h"

using namespace cbwc;
using namespace cbwc::testing;
namespace fs = std::filesystem;

TEST_CASE("a path is refused when it cannot become a file or a new folder") {
  const TemporaryFolder folder;
  const auto file_says = [](const std::string& path, const std::string& made = "") {
    return message_of<Error>([&] { check_can_write(path, kJsonResult, made); });
  };
  const auto folder_says = [](const std::string& path) {
    return message_of<Error>([&] { check_new_folder(path); });
  };
  write_bytes(folder.file("plain"), "x");
  CHECK(file_says(folder.file("new.json")).empty());
  CHECK(file_says(folder.file("a"), folder.file("a/")) ==
        folder.file("a") + ": is what --out makes; give another name");
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
TEST_CASE("a file is replaced by its own kind alone, a device never") {
  const TemporaryFolder folder;
  const std::string file = folder.file("file"), pipe = folder.file("pipe");
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  const auto says = [&](const std::string& path, const OutputKind& kind) {
    return message_of<Error>([&] { check_can_write(path, kind); });
  };
  const OutputKind kinds[] = {kJsonResult, kDataFile, kVectorLines, kVocabulary,
                              kDrawing,    kPicture,  kMarkdown};
  for (const OutputKind& kind : kinds) {
    INFO(kind.what);
    write_bytes(file, kind.begins + std::string("and more"));
    CHECK(says(file, kind).empty());
    write_bytes(file, "");
    CHECK(says(file, kind).empty());
    for (const OutputKind& other : kinds) {
      if (&other == &kind) continue;
      write_bytes(file, other.begins + std::string("and more"));
      CHECK(says(file, kind) ==
            file + ": exists and is not " + kind.what + "; nothing was changed, give another name");
    }
    write_bytes(file, std::string(kind.begins).substr(0, 1));
    CHECK_FALSE(says(file, kind).empty());
    for (const std::string& special : {pipe, std::string("/dev/null")})
      CHECK(says(special, kind).empty() == !kind.file);
  }
}

TEST_CASE("text goes into devices and through links, which stay what they are") {
  const TemporaryFolder folder;
  const std::string file = folder.file("file"), link = folder.file("link"),
                    null = folder.file("null"), lost = folder.file("lost");
  write_bytes(file, "old");
  fs::create_symlink(file, link);
  fs::create_symlink("/dev/null", null);
  fs::create_symlink(folder.file("nowhere"), lost);
  for (const std::string& path : {link, null, lost}) write_text_file(path, "new");
  CHECK(testing::read_bytes(file) == "new");
  CHECK(fs::read_symlink(link) == file);
  CHECK(fs::is_character_file("/dev/null"));
  CHECK(fs::read_symlink(null) == "/dev/null");
  CHECK(testing::read_bytes(lost) == "new");
  CHECK_THROWS_AS(write_text_file("/dev/full", "new"), RunError);
  CHECK(fs::is_character_file("/dev/full"));
  // The same of the files that are written in place.
  CHECK_THAT(message_of<Error>([&] { AtomicFile file(null, 10); }), StartsWith(null + ": is no"));
  const std::string data = write_tiny_data(folder, "data.h5"), other = folder.file("other.h5");
  fs::create_symlink(data, other);
  write_tiny_data(folder, "other.h5");
  CHECK(fs::read_symlink(other) == data);
}

TEST_CASE("no command writes over its own input") {
  const TemporaryFolder folder;
  const std::string text = folder.file("t.txt"), config = folder.file("c.toml"),
                    data = write_tiny_data(folder), run = folder.file("run");
  write_bytes(text, "some words\n");
  write_bytes(config, tiny_toml(data));
  REQUIRE(run_cbwc(folder, "train " + config + " --out " + run).exit_code == 0);
  const std::string checkpoint = run + "/checkpoints/step_0000000012.h5";
  const std::string to = " --out " + folder.file("new");
  for (const auto& [arguments, victim] : std::vector<std::pair<std::string, std::string>>{
           {"data text --input " + text + " --out " + text, text},
           {"data text --input " + text + " --out " + config, config},
           {"train " + config + to + " --json " + config, config},
           {"train " + config + to + " --json " + data, data},
           {"eval " + run + " --json " + run + "/config.toml", run + "/config.toml"},
           {"eval " + run + " --json " + checkpoint, checkpoint},
           {"detect " + run + " --dot " + run + "/metrics.csv", run + "/metrics.csv"}}) {
    const std::string before = testing::read_bytes(victim);
    const ProgramResult ran = run_cbwc(folder, arguments);
    INFO(arguments << "\n" << ran.err);
    CHECK(ran.exit_code == 2);
    CHECK_THAT(ran.err, StartsWith("error: " + victim + ": exists and is not "));
    CHECK(testing::read_bytes(victim) == before);
  }
  // Nor over what it makes itself.
  const std::string made = folder.file("made.h5");
  CHECK(run_cbwc(folder, "data text --input " + text + " --out " + made + " --json " + made)
            .exit_code == 2);
  CHECK_FALSE(fs::exists(made));
  CHECK(run_cbwc(folder, "train " + config + to + " --json " + folder.file("new/config.toml"))
            .exit_code == 2);
  CHECK(parse_config(testing::read_bytes(folder.file("new/config.toml")), "").run.steps == 12);
  fs::remove_all(folder.file("new"));
  CHECK(run_cbwc(folder, "train " + config + to + " --json " + folder.file("new")).exit_code == 2);
  CHECK_FALSE(fs::exists(folder.file("new")));
  for (const std::string& arguments :
       {"train " + config + " --out ''", std::string("info --json ''")}) {
    const ProgramResult ran = run_cbwc(folder, arguments);
    CHECK(ran.exit_code == 2);
    CHECK_THAT(ran.err, ContainsSubstring("expected a path, got nothing"));
  }
}

TEST_CASE("a new folder is there whole or not at all") {
  const TemporaryFolder folder;
  const std::string out = folder.file("a/out");
  const auto fill = [](const NewFolder& made) { write_bytes(made.path() + "/part", "x"); };
  {
    const NewFolder made(out + "/");
    fill(made);
    CHECK(made.path() != out);
    CHECK_FALSE(fs::exists(out));  // where a killed program would leave it
  }
  CHECK(fs::is_empty(folder.file("a")));
  {
    NewFolder made(out);
    fill(made);
    made.commit();
  }
  CHECK(testing::read_bytes(out + "/part") == "x");
  CHECK(std::distance(fs::directory_iterator(folder.file("a")), {}) == 1);
  CHECK_THAT(message_of<Error>([&] { NewFolder again(out); }), ContainsSubstring("exists"));
  // Another program's folder in the meantime stays.
  const std::string raced = folder.file("raced");
  NewFolder made(raced);
  fill(made);
  fs::create_directory(raced);
  write_bytes(raced + "/theirs", "y");
  CHECK_THAT(message_of<RunError>([&] { made.commit(); }), StartsWith(raced + ": cannot be"));
  CHECK(testing::read_bytes(raced + "/theirs") == "y");
}

TEST_CASE("what a killed program left beside a file or a folder goes with the next of that name") {
  const TemporaryFolder folder;
  const std::string dead = ".999999999.tmp";  // no process has such a number
  const std::string live = fmt::format(".{}.tmp", ::getppid());
  for (const char* name : {"out", "file.json", "text", "other"}) {
    fs::create_directory(folder.file(name + dead));
    write_bytes(folder.file(name + dead) + "/part", "x");
  }
  write_bytes(folder.file("out" + live), "x");
  const NewFolder made(folder.file("out"));
  const AtomicFile file(folder.file("file.json"), 1);
  write_text_file(folder.file("text"), "x");
  CHECK_FALSE(fs::exists(folder.file("out" + dead)));
  CHECK_FALSE(fs::exists(folder.file("text" + dead)));
  CHECK_FALSE(fs::exists(folder.file("file.json" + dead)));
  CHECK(fs::exists(folder.file("other" + dead)));
  CHECK(fs::exists(folder.file("out" + live)));
  CHECK((fs::exists(made.path()) && fs::exists(file.temporary())));
}

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
