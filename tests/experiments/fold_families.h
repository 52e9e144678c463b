// A small config of every model family, and how many of its norms fold (method.md 6).
#pragma once
#include <string>
#include <vector>

#include "experiments/config.h"
#include "experiments/fold.h"
#include "experiments/model_build.h"
#include "experiments/run_directory.h"
#include "tests/data/temporary_folder.h"
#include "tests/support/catch.h"

namespace cbwc::testing {

struct FoldableFamily {
  std::string name;
  std::vector<std::string> sets;   // of the config, beside those of all
  int norms, plain;                // LayerNorms, and those that fold
  int auxiliary = 0, carried = 0;  // more with --auxiliary-centring, with --carry-mean
  bool tied = false;               // a head shares a table that is centred
};

inline std::vector<FoldableFamily> foldable_families() {
  return {
      {"gpt", {"model.family=gpt"}, 5, 5, 0, 0, true},
      {"opt", {"model.family=opt"}, 5, 5, 0, 0, true},
      {"phi", {"model.family=phi"}, 3, 3},
      {"bloom", {"model.family=bloom"}, 6, 1, 5, 0, true},
      {"bert", {"model.family=bert"}, 5, 1},
      {"bert mlm", {"model.family=bert", "model.task=mlm"}, 6, 1, 0, 0, true},
      {"vit", {"model.family=vit", "model.image=12", "model.patch=4"}, 5, 5},
      {"vit, mean",
       {"model.family=vit", "model.image=12", "model.patch=4", "model.pool=mean",
        "model.qk_norm=layernorm"},
       9,
       9},
      // Swin-T's depths: six norms, and all but the three merging ones with carried means.
      {"swin",
       {"model.family=swin", "model.image=32", "model.patch=2", "model.window=2", "model.dim=4",
        "model.stage_heads=[1, 1, 2, 2]"},
       29,
       6,
       0,
       20},
      {"encoder_decoder", {"model.family=encoder_decoder"}, 12, 12, 0, 0, true},
  };
}

inline Config foldable_family_config(const FoldableFamily& family,
                                     const std::vector<std::string>& more = {}) {
  std::vector<std::string> sets = {
      "model.norm=layernorm", "model.dtype=float64", "model.layers=2",   "model.decoder_layers=2",
      "model.dim=8",          "model.heads=2",       "model.context=12", "model.classes=3",
      "model.init_std=0.3",   "run.seeds=[1]"};
  sets.insert(sets.end(), family.sets.begin(), family.sets.end());
  sets.insert(sets.end(), more.begin(), more.end());
  return parse_config("", "tiny.toml", sets);
}

// The folder config.run.out like a run's, of a model whose every gain and bias is drawn.
inline void write_randomised_run(const Config& config, const DataShape& shape) {
  const std::unique_ptr<Model> model = build_model(config, shape, 1);
  randomize_norms(*model, 3);
  Checkpoint checkpoint;
  for (const auto& [name, value] : model->state())
    checkpoint.tensors.emplace_back("model/" + name, value);
  checkpoint.attributes_json = nlohmann::json{
      {"step", 1},
      {"seed", 1},
      {"data_checksum", ""},
      {"shape", shape_json(shape)}}.dump();
  RunDirectory::create(config.run.out, config).save_checkpoint(1, checkpoint, 1);
}

// A model with drawn gains and biases in a folder like a run's, folded beside it with everything
// that the fold can do.
struct FoldedRun {
  TemporaryFolder folder;
  std::string run = folder.file("run"), out = folder.file("folded");
  Config config;
  DataShape shape{40, 30, 3, 3};

  explicit FoldedRun(const Config& c, HeadTie tied = HeadTie::rank_one) : config(c) {
    config.model.vocab = shape.vocab;
    config.run.out = run;
    write_randomised_run(config, shape);
    FoldRequest request;
    request.model = run;
    request.out = out;
    request.options = {tied, true};
    request.carry_mean = true;
    CHECK_FALSE(run_fold(request).failed);
  }
};

}  // namespace cbwc::testing
