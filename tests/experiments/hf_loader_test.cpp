// load_folded.py under a real transformers, where there is one: env CBWC_PYTHON or python3.
#include <filesystem>

#include "experiments/fold.h"
#include "tests/experiments/hf_fixtures.h"
#include "tests/support/catch.h"

using namespace cbwc;
using namespace cbwc::testing;

TEST_CASE("transformers with the loader gives the original's logits") {
  const std::string python = python_with_transformers();
  if (python.empty()) return;
  const TemporaryFolder folder;
  std::vector<std::string> command = {
      python, std::string(CBWC_SOURCE_DIR) + "/tests/python/check_folded.py"};
  const auto add_folder = [&](const std::string& model, const std::string& name, HeadTie tied,
                              bool auxiliary) {
    FoldRequest request;
    request.model = model;
    request.out = folder.file(name + head_tie_name(tied) + (auxiliary ? "_auxiliary" : ""));
    request.options = {tied, auxiliary};
    REQUIRE_FALSE(run_fold(request).failed);
    command.push_back(request.model + "=" + request.out);
  };
  const auto add = [&](const std::string& family, HeadTie tied, bool auxiliary) {
    add_folder(hf_fixture(family), family, tied, auxiliary);
  };
  for (const std::string& family : kHfFamilies) add(family, HeadTie::rank_one, false);
  for (const char* family : {"gpt2", "opt", "bert_mlm"})
    for (const HeadTie tied : {HeadTie::untie, HeadTie::runtime}) add(family, tied, false);
  for (const HeadTie tied : {HeadTie::rank_one, HeadTie::untie, HeadTie::runtime})
    add("bloom", tied, true);
  for (const std::string family : {"vit_model", "bert_model"}) {
    const std::string bare = folder.file(family + "_without_pooler");
    std::filesystem::create_directory(bare);
    write_without_pooler(family, bare);
    add_folder(bare, family + "_without_pooler_", HeadTie::rank_one, false);
  }
  const ProcessResult result = run_process(command, "python3");
  INFO(result.out << result.err);
  CHECK(result.exit_code == 0);
  CHECK(result.out.find("BloomForCausalLM float64: 6 RMSNorms") != std::string::npos);
  CHECK(result.out.find("ViTModel float64: 5 RMSNorms") != std::string::npos);
}
