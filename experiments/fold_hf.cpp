#include "experiments/fold_hf.h"

#include <fmt/ranges.h>

#include <chrono>
#include <cmath>

#include "core/rng.h"
#include "data/safetensors_types.h"
#include "experiments/fold_parts.h"
#include "experiments/hf_folder.h"
#include "experiments/hf_import.h"
#include "experiments/hf_layout.h"

namespace cbwc {
namespace {

bool is_half(StoredType type) { return type == StoredType::f16 || type == StoredType::bf16; }

// Of a file of several types the widest. `stored`: "F16, F32".
StoredType widest(const std::string& stored) {
  for (const StoredType type : {StoredType::f64, StoredType::f32, StoredType::bf16})
    for (size_t at = 0; at < stored.size(); at += 2) {
      const size_t end = std::min(stored.find(',', at), stored.size());
      if (stored.substr(at, end - at) == stored_name(type)) return type;
      at = end;
    }
  return StoredType::f16;
}

// By the names in the folder.
std::string name_there(const HfTable& table, const std::string& ours) {
  for (const HfTensor& t : table.tensors)
    if (t.ours == ours) return fmt::format("tensor {}", fmt::join(t.theirs, ", "));
  return ours;
}

// What a file of this type gives back of a model's values. A rank-one correction stays in float32.
NamedTensors rounded_state(const Model& model, StoredType type, const HfTable& table) {
  NamedTensors values = model.state();
  for (auto& [name, value] : values)
    value = rounded(is_half(type) && is_row_means(name) ? StoredType::f32 : type, value,
                    "fold: " + name_there(table, name));
  return values;
}

std::unique_ptr<Model> rounded_copy(const Model& model, StoredType type, const Config& config,
                                    const DataShape& shape, const std::vector<FoldPlan>& folds) {
  const DType dtype = type == StoredType::f64 ? DType::f64 : DType::f32;
  std::unique_ptr<Model> copy = empty_model(config, shape, dtype, folds);
  NamedTensors values = rounded_state(model, type, hf_table(config, folds));
  for (auto& [name, value] : values) value = value.to(dtype);
  copy->load_state(values);
  return copy;
}

// Moves every weight to a float32 drawn among those that round to it: a model that this one of
// half precision may have come from.
void unround(Model& model, StoredType type) {
  const int digits = type == StoredType::f16 ? 10 : 7, least = type == StoredType::f16 ? -14 : -126;
  for (const ParameterPtr& p : model.parameters()) {
    if (is_row_means(p->name())) continue;
    Rng rng(1, "unround/" + p->name());
    float* x = p->mutate().data<float>();
    for (int64_t i = 0; i < p->value().numel(); ++i) {
      const double u = rng.uniform() - 0.5;
      if (x[i] == 0) continue;
      const int exponent = std::max(std::ilogb(x[i]), least);
      x[i] = static_cast<float>(static_cast<double>(x[i]) + std::ldexp(u, exponent - digits));
    }
  }
}

int64_t stored_bytes(const Model& model, StoredType type) {
  int64_t bytes = 0;
  for (const ParameterPtr& p : model.parameters()) {
    const bool wide = is_half(type) && is_row_means(p->name());
    bytes += p->value().numel() * static_cast<int64_t>(stored_size(wide ? StoredType::f32 : type));
  }
  return bytes;
}

class HfFold {
 public:
  explicit HfFold(const FoldRequest& request) : request_(request) {
    HfImport imported = import_model(request.model, request.allowed);
    source_type_ = widest(imported.stored);
    type_ = request.type.value_or(source_type_);
    const std::vector<std::string> notes = imported.notes;
    loaded_ = loaded_import(std::move(imported), request.model);
    report_ = start_fold(request, loaded_);
    report_.notes.insert(report_.notes.begin(), notes.begin(), notes.end());
    report_.stored = stored_name(type_);
    report_.dtype = torch_name(type_);
  }

  FoldReport run() {
    if (report_.plan.empty()) return report_;
    folds_ = loaded_.folds;
    folds_.push_back(report_.plan);
    gather_inputs();
    const auto exact = fold_in_float64();
    if (type_ != StoredType::f64) verify_single(*exact);
    const auto folded = after(*exact, type_);
    if (is_half(type_)) compare_half(*folded);
    report_.extra_bytes = stored_bytes(*folded, type_) - stored_bytes(*loaded_.model, type_);
    for (const Verification& v : report_.verifications) report_.failed |= !v.passed;
    for (const HalfError& h : report_.half) report_.failed |= !h.fold.passed;
    if (!report_.failed) write(*folded);
    return report_;
  }

 private:
  std::unique_ptr<Model> before(StoredType type) const {
    return rounded_copy(*loaded_.model, type, loaded_.config, loaded_.shape, loaded_.folds);
  }
  std::unique_ptr<Model> after(const Model& exact, StoredType type) const {
    return rounded_copy(exact, type, report_.folded, loaded_.shape, folds_);
  }

  void gather_inputs() {
    inputs_ = {random_input(report_.folded, report_.shape)};
    try {
      inputs_.push_back(real_input(loaded_.config, loaded_.shape, request_.model, request_.text,
                                   request_.images));
    } catch (const Error& e) {
      if (!request_.text.empty() || !request_.images.empty()) throw;
      report_.notes.push_back(std::string("verified on random input only: ") + e.what());
    }
  }

  std::unique_ptr<Model> fold_in_float64() {
    const auto plain = before(StoredType::f64);
    auto exact = before(StoredType::f64);
    const auto start = std::chrono::steady_clock::now();
    apply_fold(*exact, report_.plan);
    report_.fold_ms =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    verify(*plain, *exact, request_.tolerance64);
    return exact;
  }

  void verify(Model& a, Model& b, double tolerance) {
    for (const FoldInput& input : inputs_)
      report_.verifications.push_back(compare_logits(a, b, input.values, input.name, tolerance));
  }

  void verify_single(const Model& exact) {
    verify(*before(StoredType::f32), *after(exact, StoredType::f32), request_.tolerance32);
  }

  void compare_half(Model& folded) {
    const auto plain = before(type_), reference = before(StoredType::f32);
    const bool drawn = source_type_ == type_;
    if (drawn) unround(*reference, type_);
    for (const FoldInput& input : inputs_) {
      HalfError h;
      h.fold = compare_logits(*plain, folded, input.values, input.name, HUGE_VAL);
      h.rounding = compare_logits(*reference, *plain, input.values, input.name, HUGE_VAL);
      h.fold.passed = std::isfinite(h.fold.max_rel);
      h.fold.dtype = h.rounding.dtype = torch_name(type_);
      h.rounding_of = drawn ? "of float32 weights drawn among those that round to these"
                            : "of the folder's own weights";
      report_.half.push_back(h);
    }
  }

  void write(const Model& folded) const {
    HfFolder out;
    out.model = &folded;
    out.config = loaded_.config;
    out.shape = loaded_.shape;
    out.attributes = checkpoint_attributes(report_, loaded_);
    out.folds = folds_;
    out.kept = loaded_.kept;
    out.type = type_;
    out.reasons = report_.reasons;
    out.files_from = request_.model;
    write_hf_folder(out, report_.out);
  }

  const FoldRequest& request_;
  LoadedModel loaded_;
  FoldReport report_;
  StoredType source_type_ = StoredType::f32, type_ = StoredType::f32;
  std::vector<FoldPlan> folds_;
  std::vector<FoldInput> inputs_;
};

}  // namespace

FoldReport run_fold_hf(const FoldRequest& request) {
  CBWC_CHECK(request.sets.empty(), request.model, ": is a model; --set can only change a config");
  CBWC_CHECK(!request.carry_mean, "--carry-mean: a layer of one more channel is in no model of ",
             "transformers; import the folder first and fold the run");
  return HfFold(request).run();
}

}  // namespace cbwc
