// cbwc import MODEL_DIR --out DIR, cbwc export MODEL --out MODEL_DIR
#include <fmt/format.h>

#include "experiments/command.h"
#include "experiments/hf_folder.h"
#include "experiments/hf_import.h"
#include "experiments/hf_layout.h"
#include "experiments/json_output.h"
#include "experiments/model_graph.h"
#include "experiments/out_path.h"

namespace cbwc {
namespace {

struct ImportOptions {
  std::string folder, out;
  std::vector<std::string> allowed;
};

int run_import(const ImportOptions& o, const CommandContext& context) {
  check_new_folder(o.out);
  HfImport imported = import_model(o.folder, o.allowed);
  const std::vector<std::string> more = save_import(imported, o.folder, o.out);
  imported.notes.insert(imported.notes.end(), more.begin(), more.end());
  const HfDescription& d = imported.description;
  if (!context.global.quiet) {
    for (const std::string& note : imported.notes) fmt::print("note: {}\n", note);
    fmt::print("{}: {} tensors ({}), {} parameters in {}\n{}\n{}\n", d.architecture,
               imported.tensors, imported.stored, imported.parameters, d.config.model.dtype,
               imported.model->describe(), o.out);
  }
  write_command_json(context, "import", config_json(d.config),
                     {{"architecture", d.architecture},
                      {"tensors", imported.tensors},
                      {"stored", imported.stored},
                      {"parameters", imported.parameters},
                      {"notes", imported.notes}});
  return 0;
}

struct ExportOptions {
  std::string model, out, dtype;
};

std::optional<StoredType> chosen_type(const std::string& dtype) {
  for (const StoredType type :
       {StoredType::f64, StoredType::f32, StoredType::f16, StoredType::bf16})
    if (dtype == torch_name(type)) return type;
  return {};
}

int run_export(const ExportOptions& o, const CommandContext& context) {
  check_new_folder(o.out);
  const LoadedModel loaded = load_model(o.model);
  HfFolder folder = hf_folder_of(loaded);
  folder.type = chosen_type(o.dtype);
  const int files = write_hf_folder(folder, o.out);
  std::vector<std::string> notes;
  if (files == 0 && loaded.attributes.contains("imported"))
    notes.push_back(o.model + " has no tokenizer or preprocessor files, so none were written");
  if (!context.global.quiet) {
    for (const std::string& note : notes) fmt::print("note: {}\n", note);
    fmt::print("{}\n", o.out);
  }
  write_command_json(context, "export", config_json(loaded.config),
                     {{"parameters", loaded.model->parameter_count()}, {"notes", notes}});
  return 0;
}

}  // namespace

void add_import_command(CommandLine app, CommandContext& context) {
  auto o = std::make_shared<ImportOptions>();
  CommandLine command = app.add_subcommand(
      "import",
      "read a Hugging Face model: GPT-2, OPT, Phi, BLOOM, BERT, ViT or Swin; every tensor and "
      "option is accounted for");
  command.add_option("model", o->folder, "folder with config.json and model.safetensors")
      .type_name("MODEL_DIR")
      .required();
  command.add_option("--out", o->out, "new folder, like a run's").type_name("DIR").required();
  command
      .add_option("--allow", o->allowed,
                  "an entry of config.json that is not known and does not change the function "
                  "(repeatable)")
      .type_name("NAME")
      .one_value_each();
  command.callback([o, &context] { context.exit_code = run_import(*o, context); });
}

void add_export_command(CommandLine app, CommandContext& context) {
  auto o = std::make_shared<ExportOptions>();
  CommandLine command =
      app.add_subcommand("export",
                         "write a model as transformers reads it: config.json and "
                         "model.safetensors; a folded one with "
                         "a loader that puts its RMSNorms in");
  command.add_option("model", o->model, "run directory, folder of checkpoints, or checkpoint")
      .type_name("MODEL")
      .required();
  command.add_option("--out", o->out, "new folder").type_name("MODEL_DIR").required();
  command.add_option("--dtype", o->dtype, "type of the weights (default: the model's)")
      .check(one_of({"float64", "float32", "float16", "bfloat16"}));
  command.callback([o, &context] { context.exit_code = run_export(*o, context); });
}

}  // namespace cbwc
