// The models of tests/fixtures/hf_*, folded.
#pragma once
#include <string>
#include <vector>

#include "experiments/fold.h"
#include "experiments/hf_import.h"
#include "experiments/hf_note.h"
#include "layers/compare.h"
#include "tests/experiments/hf_fixtures.h"
#include "tests/support/catch.h"

namespace cbwc::testing {

constexpr double kFoldExact = 1e-10;  // the fold's own bound in float64

struct FoldCase {
  std::string family;
  FoldOptions options;
  int norms;  // that fold
  bool affine = false;
};

inline std::vector<FoldCase> fold_cases() {
  const FoldOptions plain, untie{HeadTie::untie, false}, runtime{HeadTie::runtime, false};
  return {{"gpt2", plain, 5},
          {"gpt2", untie, 5},
          {"gpt2", runtime, 5},
          {"gpt2", plain, 5, true},
          {"opt", plain, 5},
          {"opt", untie, 5},
          {"opt", runtime, 5},
          {"phi", plain, 3},
          {"bloom", plain, 1},
          {"bloom", {HeadTie::untie, true}, 6},
          {"bloom", {HeadTie::rank_one, true}, 6},
          {"bloom", {HeadTie::runtime, true}, 6},
          {"bert_mlm", plain, 1},
          {"bert_mlm", untie, 1},
          {"bert_mlm", runtime, 1},
          {"bert_classifier", plain, 1},
          {"bert_model", plain, 1},
          {"vit", plain, 5},
          {"swin", plain, 4},
          {"gpt2_inner", plain, 5},
          {"gpt2_inner", plain, 5, true},
          {"bert_types", plain, 1},
          {"bert_one_type", plain, 1},
          {"vit_model", plain, 5},
          {"vit_model", plain, 5, true},
          {"swin_model", plain, 4}};
}

inline std::string title(const FoldCase& c) {
  return c.family + " " + head_tie_name(c.options.tied) +
         (c.options.auxiliary_centring ? " auxiliary" : "") + (c.affine ? " affine" : "");
}

inline FoldRequest request_for(const FoldCase& c, const std::string& model,
                               const std::string& out) {
  FoldRequest request;
  request.model = model;
  request.out = out;
  request.options = c.options;
  request.affine = c.affine;
  return request;
}

inline Tensor logits_of(const HfImport& m) {
  return m.model->logits(hf_input(m.description), {}).value().to(DType::f64);
}

inline double difference(const std::string& before, const std::string& after) {
  return relative_difference(logits_of(import_model(before)), logits_of(import_model(after)));
}

// A folded fixture whose note can be changed.
struct FoldedFixture {
  TemporaryFolder folder;
  std::string out = folder.file("folded");
  nlohmann::json note;
  explicit FoldedFixture(const FoldCase& c) {
    run_fold(request_for(c, hf_fixture(c.family), out));
    note = read_json(out + "/" + kNoteFile);
  }
  std::string answer(const nlohmann::json& changed) const {
    write_json(out + "/" + kNoteFile, changed);
    return message_of<Error>([&] { import_model(out); });
  }
};

}  // namespace cbwc::testing
