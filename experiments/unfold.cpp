#include "experiments/unfold.h"

namespace cbwc {
namespace {

// E + r 1^T: the table before its rows lost their means.
Tensor with_row_means(const Tensor& table, const Tensor& means) {
  const int64_t rows = table.size(0), cols = table.size(1);
  std::vector<double> e = table.to(DType::f64).to_vector<double>();
  const std::vector<double> r = means.to(DType::f64).to_vector<double>();
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j)
      e[static_cast<size_t>(i * cols + j)] += r[static_cast<size_t>(i)];
  return Tensor::from(e, {rows, cols});
}

// W + 1 r: a writer whose last channel along the axis carries the mean of the others.
Tensor with_carried_mean(const Tensor& carrying, int axis) {
  const Tensor x = carrying.to(DType::f64).contiguous();
  Shape shape = x.shape();
  const int64_t channels = --shape[static_cast<size_t>(axis)];
  int64_t outer = 1, inner = 1;
  for (int i = 0; i < x.rank(); ++i)
    if (i != axis) (i < axis ? outer : inner) *= x.size(i);
  std::vector<double> out(static_cast<size_t>(outer * channels * inner));
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t i = 0; i < inner; ++i) {
        const double* slab = x.data<double>() + o * (channels + 1) * inner;
        out[static_cast<size_t>((o * channels + c) * inner + i)] =
            slab[c * inner + i] + slab[channels * inner + i];
      }
  return Tensor::from(out, shape);
}

}  // namespace

Config trained_config(const Config& config, const nlohmann::json& attributes) {
  Config c = config;
  if (!attributes.contains("folded")) return c;
  try {
    const nlohmann::json& before = attributes["folded"].at("before");
    c.model.norm = before.at("norm");
    c.model.qk_norm = before.at("qk_norm");
    c.model.tied_head = before.at("tied_head");
  } catch (const nlohmann::json::exception& e) {
    detail::fail("the record of what was folded is damaged: ", e.what());
  }
  c.model.folded_tie = "none";
  return c;
}

void absorb_fold(const FoldPlan& plan, const NamedTensors& fresh, NamedTensors& values) {
  for (const Tie& tie : plan.ties) {
    const auto means = values.find(tie.head + ".row_means");
    const auto untied = values.find(tie.head + ".weight");
    if (means != values.end() && fresh.count(means->first) == 0) {
      values[tie.parameter] = with_row_means(values.at(tie.parameter), means->second);
      values.erase(means);
    }
    if (plan.tied == HeadTie::untie && untied != values.end() && fresh.count(untied->first) == 0) {
      values[tie.parameter] = untied->second;
      values.erase(untied);
    }
  }
  for (const CentredParameter& c : plan.centre)
    if (c.carries_mean)
      values[c.parameter] = with_carried_mean(values.at(c.parameter), c.lane.axis);
}

LoadedModel unfolded(const LoadedModel& folded) {
  LoadedModel out;
  out.shape = folded.shape;
  out.folder = folded.folder;
  out.checkpoint_path = folded.checkpoint_path;
  out.attributes = folded.attributes;
  out.attributes.erase("folded");
  try {
    out.config = trained_config(folded.config, folded.attributes);
    out.model = empty_model(out.config, out.shape, folded.model->dtype());
    const NamedTensors fresh = out.model->state();
    NamedTensors values = folded.model->state();
    for (auto plan = folded.folds.rbegin(); plan != folded.folds.rend(); ++plan)
      absorb_fold(*plan, fresh, values);
    for (auto& [name, value] : values) value = value.to(out.model->dtype());
    out.model->load_state(values);
  } catch (const Error& e) {
    detail::fail(folded.checkpoint_path, ": ", e.what());
  }
  return out;
}

}  // namespace cbwc
