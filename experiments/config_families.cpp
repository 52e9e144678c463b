// Which keys a model family reads. A key that says something other than its default to a family
// that does not read it is a mistake: the run would not be what its config says.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/check.h"
#include "experiments/config.h"

namespace cbwc {
namespace {

using Families = std::set<std::string>;

const Families kImages = {"vit", "swin"};
const Families kText = {"gpt", "opt", "phi", "bloom", "bert", "encoder_decoder"};

// What changes the function or the training. Keys that are not here are read by all, or are sizes.
const std::map<std::string, Families>& readers() {
  static const std::map<std::string, Families> table = {
      {"run.beam", {"encoder_decoder"}},
      {"run.bleu_samples", {"encoder_decoder"}},
      {"data.mask_probability", {"bert"}},
      {"model.placement", {"gpt", "encoder_decoder"}},
      {"model.qk_norm", {"gpt", "vit"}},
      {"model.tied_head", {"gpt", "encoder_decoder"}},
      {"model.folded_tie", {"gpt"}},
      {"model.gelu", {"gpt", "bert", "vit", "swin", "encoder_decoder"}},
      {"model.token_types", {"bert"}},
      {"model.drop_path", kImages},
      {"model.rotary", {"phi"}},
      {"model.task", {"bert", "vit", "swin"}},
      {"model.pool", {"vit"}},
      {"model.patch_norm", {"swin"}},
      {"augment.crop_scale", kImages},
      {"augment.pad_crop", kImages},
      {"augment.flip", kImages},
      {"augment.rand_ops", kImages},
      {"augment.rand_magnitude", kImages},
      {"augment.jitter", kImages},
      {"augment.erase", kImages},
      {"augment.mixup", kImages},
      {"augment.cutmix", kImages}};
  return table;
}

const Families kBlocks = {"gpt", "opt", "phi", "bloom", "bert", "vit", "encoder_decoder"};

// Sizes: configs of several families share them, so one that is not read is no mistake. Of those
// that stand for the same thing each family reads its own.
enum class Stands { blocks, heads, input, output };
struct Size {
  const char* key;
  Stands stands;
  Families readers;
};
const std::vector<Size>& sizes() {
  static const std::vector<Size> table = {
      {"model.layers", Stands::blocks, kBlocks},
      {"model.decoder_layers", Stands::blocks, {"encoder_decoder"}},
      {"model.depths", Stands::blocks, {"swin"}},
      {"model.heads", Stands::heads, kBlocks},
      {"model.stage_heads", Stands::heads, {"swin"}},
      {"model.context", Stands::input, kText},
      {"model.image", Stands::input, kImages},
      {"model.patch", Stands::input, kImages},
      {"model.window", Stands::input, {"swin"}},
      {"model.vocab", Stands::output, kText},
      {"model.classes", Stands::output, {"bert", "vit", "swin"}}};
  return table;
}

// The config's family, and those that its sweep goes through.
Families families_of(const Config& config) {
  Families all = {config.model.family};
  for (const SweepEntry& entry : config.compare.sweep)
    if (const auto found = entry.find("model.family"); found != entry.end())
      for (const std::string& text : found->second) all.insert(text.substr(1, text.size() - 2));
  return all;
}

bool any_reads(const Families& families, const Size& size) {
  return std::any_of(families.begin(), families.end(),
                     [&](const std::string& f) { return size.readers.count(f) > 0; });
}

std::string read_instead(const Families& families, const Size& size) {
  std::vector<std::string> keys;
  for (const Size& other : sizes())
    if (other.stands == size.stands && any_reads(families, other)) keys.emplace_back(other.key);
  return fmt::format("{}", fmt::join(keys, ", "));
}

bool same_value(const ConfigKey& key, Config a, Config b) {
  return std::visit([&](auto* x) { return *x == *std::get<decltype(x)>(key.field(b)); },
                    key.field(a));
}

bool says_default(const Config& config, const std::string& name) {
  return std::any_of(config_keys().begin(), config_keys().end(), [&](const ConfigKey& key) {
    return key.full() == name && same_value(key, config, Config{});
  });
}

}  // namespace

void check_family_keys(const Config& config) {
  const std::string& family = config.model.family;
  if (kText.count(family) + kImages.count(family) == 0) return;  // a simple model of a comparison
  for (const ConfigKey& key : config_keys()) {
    const auto found = readers().find(key.full());
    if (found == readers().end() || found->second.count(family) > 0) continue;
    if (same_value(key, config, Config{})) continue;
    const auto where = config.where.find(key.full());
    detail::fail(where == config.where.end() ? "" : where->second + ": ", key.full(),
                 " is not read by model.family ", family, "; it is for ",
                 fmt::format("{}", fmt::join(found->second, ", ")));
  }
  const auto task = config.where.find("model.task");
  CBWC_CHECK(config.model.task != "mlm" || kImages.count(family) == 0,
             task == config.where.end() ? "" : task->second + ": ",
             "model.task mlm is for bert; a model of family ", family,
             " classifies or gives hidden_states");
}

std::vector<std::string> unread_sizes(const Config& config) {
  const Families families = families_of(config);
  std::vector<std::string> lines;
  if (kText.count(config.model.family) + kImages.count(config.model.family) == 0) return lines;
  const auto said = [&](const Size& size) { return config.where.count(size.key) > 0; };
  // The program's own complete configs say every default.
  const bool complete = std::all_of(sizes().begin(), sizes().end(), said);
  for (const Size& size : sizes()) {
    if (!said(size) || any_reads(families, size)) continue;
    const std::string& where = config.where.at(size.key);
    if (complete && !where.starts_with("--set ") && says_default(config, size.key)) continue;
    lines.push_back(fmt::format("{}: {} has no effect on model.family {}, which reads {}", where,
                                size.key, config.model.family, read_instead(families, size)));
  }
  return lines;
}

}  // namespace cbwc
