#include "experiments/model_folder.h"

#include "data/checkpoint.h"
#include "experiments/hf_input_files.h"
#include "experiments/out_path.h"
#include "experiments/run_directory.h"

namespace cbwc {

void write_model_folder(const ModelFolder& f, const std::string& out) {
  NewFolder folder(out);
  const RunDirectory dir = RunDirectory::create(folder.path(), f.config);
  Checkpoint checkpoint;
  for (const auto& [name, value] : f.model.state())
    checkpoint.tensors.emplace_back("model/" + name, value);
  for (const auto& [name, value] : f.kept) checkpoint.tensors.emplace_back("kept/" + name, value);
  checkpoint.attributes_json = f.attributes.dump();
  if (f.text) write_run_text(*f.text, folder.path());
  keep_input_files(f.files_from, folder.path());
  dir.save_checkpoint(f.attributes.at("step").get<int64_t>(), checkpoint, 1);
  folder.commit();
}

}  // namespace cbwc
