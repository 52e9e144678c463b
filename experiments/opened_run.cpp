#include "experiments/opened_run.h"

#include <fmt/format.h>

#include "experiments/model_graph.h"

namespace cbwc {

OpenedRun open_run(const std::string& path, const std::string& eval_split) {
  LoadedModel loaded = load_model(path);
  for (const std::string& warning : loaded.warnings)
    fmt::print(stderr, "warning: skipped {}\n", warning);
  CBWC_CHECK(!loaded.checkpoint_path.empty(), path,
             ": is a config; expected a run, a checkpoint or a folded model");
  CBWC_CHECK(!loaded.config.data.file.empty(), path,
             ": has no data file; --text FILE measures a decoder on a text");
  OpenedRun o{
      loaded.config, open_data(loaded.config, eval_split), loaded.attributes.at("step"), {}};
  check_checksum(loaded.attributes, o.data, o.config.data.file);
  o.trainer = std::make_unique<Trainer>(o.config, o.config.run.seeds.at(0), o.data,
                                        std::move(loaded.model));
  return o;
}

}  // namespace cbwc
