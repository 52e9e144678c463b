#include "experiments/hf_readme.h"

#include <fmt/format.h>

#include <set>

#include "experiments/json_output.h"

namespace cbwc {
namespace {

using Json = nlohmann::json;

std::string numbers(const Json& v) {
  return fmt::format("{:.2e} | {:.2e} | {:.2f} %", number_from_json(v.at("max_abs_difference")),
                     number_from_json(v.at("max_rel_difference")),
                     100 * number_from_json(v.at("argmax_agreement")));
}

std::string norm_table(const HfReadme& r) {
  std::string out = "| norm | now | why |\n|---|---|---|\n";
  std::set<std::string> folded, told;
  for (const Json& norm : r.note.at("norms")) folded.insert(norm.at("module"));
  for (const auto& [norm, reason] : r.reasons) {
    told.insert(norm);
    out += fmt::format("| `{}` | {} | {} |\n", norm, folded.count(norm) ? "RMSNorm" : "LayerNorm",
                       reason);
  }
  for (const Json& norm : r.note.at("norms")) {
    const std::string name = norm.at("module");
    if (told.count(name) == 0) out += fmt::format("| `{}` | RMSNorm | |\n", name);
  }
  return out;
}

// The last dimension of each module's output loses its mean, or the head is corrected.
std::string rest(const HfReadme& r) {
  std::string out;
  for (const Json& module : r.note.at("centre_output"))
    out += fmt::format("* What `{}` returns is centred over its last axis at run time.\n",
                       module.get<std::string>());
  const Json& logits = r.note.at("logits");
  if (logits.is_null()) return out;
  const std::string head = logits.at("module"), tie = logits.at("tie");
  if (tie == "rank_one")
    out += fmt::format(
        "* `{}` still shares the embedding's table, whose rows are centred now: with each row's "
        "mean r (the tensor `{}`), sum(h) r is added to the logits.\n",
        head, logits.at("row_means").get<std::string>());
  if (tie == "untie")
    out += fmt::format(
        "* `{}` has the table as it was, the embedding a centred copy "
        "(tie_word_embeddings is false).\n",
        head);
  return out;
}

std::string verification(const HfReadme& r) {
  std::string out =
      "| input | type | positions | largest difference | relative | likeliest answer equal |\n"
      "|---|---|---|---|---|---|\n";
  for (const Json& v : r.folded.at("verification"))
    out +=
        fmt::format("| {} | {} | {} | {} |\n", v.at("input").get<std::string>(),
                    v.at("dtype").get<std::string>(), v.at("positions").get<int64_t>(), numbers(v));
  if (!r.folded.contains("half")) return out;
  out +=
      "\nWith the weights rounded once to half precision, computed in float32, against the "
      "unfolded weights of the same type; and, to compare, what rounding does by itself:\n\n"
      "| input | weights | what | largest difference | relative | likeliest answer equal |\n"
      "|---|---|---|---|---|---|\n";
  for (const Json& h : r.folded["half"]) {
    const std::string input = h.at("input"), type = h.at("dtype");
    out += fmt::format("| {} | {} | the fold | {} |\n", input, type, numbers(h.at("fold")));
    out += fmt::format("| {} | {} | rounding {} | {} |\n", input, type,
                       h.at("rounding_of").get<std::string>(), numbers(h.at("rounding")));
  }
  return out;
}

}  // namespace

std::string hf_readme(const HfReadme& r) {
  const std::string architecture = r.note.at("architecture"), source = r.folded.at("model");
  std::string out = fmt::format(
      "# {} with RMSNorm\n\n"
      "Made by cbwc {} from `{}`: {} of its LayerNorms are RMSNorms now (each with its gain, bias "
      "and eps), the layers in front of them write vectors of zero mean. The model is the same "
      "function, up to rounding.\n\n"
      "## What changed\n\n{}\n",
      architecture, r.folded.at("version").get<std::string>(), source, r.note.at("norms").size(),
      norm_table(r));
  out += rest(r);
  out += fmt::format("* {} tensors were centred; `modeling_note.json` names them.\n",
                     r.note.at("centred").size());
  out += "\n## How it was verified\n\nOutputs of the folded model against the original's:\n\n" +
         verification(r);
  out +=
      "\n## How to load it\n\n"
      "`" +
      architecture +
      ".from_pretrained` alone would put LayerNorms back. With "
      "transformers and this folder's loader:\n\n"
      "    from load_folded import load   # beside model.safetensors\n"
      "    model = load(\"THIS_FOLDER\")\n\n"
      "or `python load_folded.py THIS_FOLDER`, which prints what was patched. cbwc reads the "
      "folder itself: `cbwc detect THIS_FOLDER`.\n";
  return out;
}

}  // namespace cbwc
