// Detections of small GPTs, and looks at what detect prints and draws.
#pragma once
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "experiments/detect.h"
#include "experiments/model_setup.h"
#include "layers/gpt.h"
#include "tests/experiments/tiny_run.h"
#include "tests/support/catch.h"

namespace cbwc::testing {

constexpr int kLayers = 2, kNorms = 2 * kLayers + 1;

inline DetectReport report_of(std::vector<std::string> sets, bool training = false) {
  sets.insert(sets.begin(), "model.norm=layernorm");
  const Config config = tiny_config("no data needed", sets);
  Gpt model(gpt_config(config, 257), 1);
  randomize_norms(model, 3);
  return run_detect(model, training);
}

inline const DetectedNorm& norm_named(const Detection& d, const std::string& name) {
  const auto found = std::find_if(d.norms.begin(), d.norms.end(),
                                  [&](const DetectedNorm& n) { return n.name == name; });
  REQUIRE(found != d.norms.end());
  return *found;
}

inline size_t count(const std::string& text, const std::string& what) {
  size_t n = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

// What Graphviz needs of the text, quoted strings and HTML labels skipped.
inline void check_well_formed(const std::string& dot) {
  std::map<char, int> open;
  bool quoted = false;
  int angle = 0, deepest = 0;
  for (size_t i = 0; i < dot.size(); ++i) {
    const char c = dot[i];
    if (quoted) {
      if (c == '\\') ++i;
      if (c == '"') quoted = false;
      CHECK(c != '\n');
    } else if (c == '"') {
      quoted = true;
    } else if (angle > 0 || (c == '<' && dot[i - 1] == '=')) {
      angle += (c == '<') - (c == '>');
    } else if (c == '{' || c == '[') {
      deepest = std::max(deepest, ++open[c]);
    } else if (c == '}' || c == ']') {
      CHECK(--open[c == '}' ? '{' : '['] >= 0);
    }
  }
  CHECK_FALSE(quoted);
  CHECK(angle == 0);
  CHECK(open['{'] == 0);
  CHECK(open['['] == 0);
  CHECK(deepest > 1);
  CHECK(dot.rfind("digraph ", 0) == 0);
  CHECK(dot.substr(dot.size() - 2) == "}\n");
}

}  // namespace cbwc::testing
