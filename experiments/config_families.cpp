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

// What changes the function or the training. Keys that are not here are read by all, or are sizes
// (heads, window): configs of several families share them.
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
      {"model.mlp_ratio", {"opt", "phi", "bloom", "bert", "vit", "swin", "encoder_decoder"}},
      {"model.drop_path", kImages},
      {"model.rotary", {"phi"}},
      {"model.task", {"bert"}},
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

bool same_value(const ConfigKey& key, Config a, Config b) {
  return std::visit([&](auto* x) { return *x == *std::get<decltype(x)>(key.field(b)); },
                    key.field(a));
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
}

}  // namespace cbwc
