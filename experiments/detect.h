// Which LayerNorms of a model may become RMSNorms, for a person and for scripts (cli.md, detect).
#pragma once
#include <string>

#include "autograd/analysis/detector.h"
#include "data/json.h"
#include "layers/model.h"

namespace cbwc {

struct DetectReport {
  std::string model;  // one line
  bool training = false;
  Graph graph;
  Detection detection;
  double forward_ms = 0;  // the recorded pass; the analysis is detection.elapsed_ms
};

DetectReport run_detect(Model& model, bool training);
nlohmann::json detect_json(const DetectReport& report);
// Long lists are cut, with a word on what was left out: detect_json() has them whole.
std::string detect_table(const DetectReport& report);

}  // namespace cbwc
