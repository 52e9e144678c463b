#include "layers/folding.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "core/parallel.h"
#include "layers/choices.h"
#include "layers/compare.h"
#include "layers/folding_numbers.h"
#include "layers/layer_norm.h"
#include "layers/tied_linear.h"

namespace cbwc {
namespace {

constexpr Choices<HeadTie, 3> kTies = {
    {{"rank_one", HeadTie::rank_one}, {"untie", HeadTie::untie}, {"runtime", HeadTie::runtime}}};

// Everything that a plan names, found and checked, before a number changes.
class Folding {
 public:
  Folding(Module& model, const FoldPlan& plan) : model_(model), plan_(plan) {
    for (const ParameterPtr& p : model.parameters()) parameters_[p->name()] = p;
    find_norms();
    for (const std::string& name : plan.auxiliary) {
      Module* module = find(name);
      CBWC_CHECK(module->can_centre_output(), "fold: the output of '", name, "' (",
                 module->describe(), ") cannot be centred at run time");
      auxiliary_.push_back(module);
    }
    find_carried();
    find_groups();
    find_ties();
    find_affine();
  }

  void apply() {
    settle_ties();
    for (const CentredLanes& c : carrying_) means_.push_back(means_along(c));
    for (const auto& group : groups_) centre_group(group);
    for (const ParameterPtr& gain : scales_) gain->mutate().fill(1.0);
    for (size_t i = 0; i < carrying_.size(); ++i) append_along(carrying_[i], means_[i]);
    for (Module* module : auxiliary_) module->centre_output();
    for (Module* module : split_) module->split_output();
    for (Module* module : restored_) module->restore_input();
    for (LayerNorm* norm : norms_) norm->become_rms_norm();
    for (const Affine& affine : affine_) fold_affine(affine);
  }

 private:
  struct TiedPair {
    TiedLinear* head;
    ParameterPtr table;
  };
  struct Affine {
    ParameterPtr gamma, beta;                                    // beta may be null
    std::vector<std::pair<ParameterPtr, ParameterPtr>> readers;  // weight, bias or null
  };

  Module* find(const std::string& name) {
    Module* module = model_.find(name);
    CBWC_CHECK(module != nullptr, "fold: the model has no module '", name, "'");
    return module;
  }

  ParameterPtr parameter(const std::string& name) {
    const auto found = parameters_.find(name);
    CBWC_CHECK(found != parameters_.end(), "fold: the model has no parameter '", name, "'");
    CBWC_CHECK(all_finite(found->second->value()), "fold: parameter '", name,
               "' holds a number that is not finite");
    return found->second;
  }

  void find_norms() {
    for (const std::string& name : plan_.norms) {
      Module* module = find(name);
      auto* norm = dynamic_cast<LayerNorm*>(module);
      CBWC_CHECK(norm != nullptr && !norm->is_rms_norm(), "fold: '", name,
                 "' is not a LayerNorm: ", module->describe());
      norms_.push_back(norm);
    }
  }

  void find_carried() {
    for (const std::string& name : plan_.carried.projected) {
      split_.push_back(find(name));
      CBWC_CHECK(split_.back()->can_split_output(), "fold: the mean of '", name, "' (",
                 split_.back()->describe(), ") cannot be carried");
    }
    for (const std::string& name : plan_.carried.readers) {
      restored_.push_back(find(name));
      CBWC_CHECK(restored_.back()->can_restore_input(), "fold: the carried mean cannot be added ",
                 "back in front of '", name, "' (", restored_.back()->describe(), ")");
    }
    for (const CentredParameter& c : plan_.centre) {
      if (!c.carries_mean) continue;
      carrying_.push_back({parameter(c.parameter), c.lane, nullptr});
      const bool tied = std::any_of(plan_.ties.begin(), plan_.ties.end(),
                                    [&](const Tie& t) { return t.parameter == c.parameter; });
      CBWC_CHECK(is_whole(c.lane, carrying_.back().parameter->value().shape()) && !tied &&
                     c.scale.empty() && c.together == 0,
                 "fold: the mean of '", c.parameter, "' cannot be carried in a channel of its own");
    }
  }

  void find_groups() {
    std::map<int, size_t> number;  // of `together` -> index of its group
    std::set<std::pair<std::string, Lane>> seen;
    std::set<std::string> scaled;
    for (const CentredParameter& c : plan_.centre) {
      if (!seen.insert({c.parameter, c.lane}).second) continue;
      CentredLanes lanes{parameter(c.parameter), c.lane, nullptr};
      check_lane(lanes);
      if (!c.scale.empty()) {
        lanes.scale = parameter(c.scale);
        check_scale(c, lanes);
        CBWC_CHECK(scaled.insert(c.parameter).second, "fold: '", c.parameter,
                   "' is scaled by more than one gain");
        if (std::find(scales_.begin(), scales_.end(), lanes.scale) == scales_.end())
          scales_.push_back(lanes.scale);
      }
      if (c.together == 0) {
        groups_.push_back({lanes});
        continue;
      }
      const auto [at, fresh] = number.try_emplace(c.together, groups_.size());
      if (fresh) groups_.emplace_back();
      groups_[at->second].push_back(lanes);
      check_together(groups_[at->second]);
    }
  }

  static void check_lane(const CentredLanes& c) {
    const Shape& shape = c.parameter->value().shape();
    const Lane& l = c.lane;
    CBWC_CHECK(l.axis >= 0 && l.axis < static_cast<int>(shape.size()), "fold: '",
               c.parameter->name(), "' has shape ", to_string(shape), " and no axis ", l.axis);
    const int64_t extent = shape[static_cast<size_t>(l.axis)];
    CBWC_CHECK(0 <= l.start && l.start < l.end && l.end <= extent && l.block > 0 &&
                   (l.end - l.start) % l.block == 0,
               "fold: '", c.parameter->name(), "' of shape ", to_string(shape),
               " cannot be centred along ", to_string(l));
  }

  static void check_scale(const CentredParameter& c, const CentredLanes& lanes) {
    const Shape& shape = lanes.parameter->value().shape();
    const int64_t extent = shape[static_cast<size_t>(c.lane.axis)];
    CBWC_CHECK(c.lane.start == 0 && c.lane.end == extent && lanes.scale->value().numel() == extent,
               "fold: the gain '", c.scale, "' of ", lanes.scale->value().numel(),
               " channels does not fit '", c.parameter, "' of shape ", to_string(shape));
  }

  // Stacked rows: one group over all of them, so the other extents must agree.
  static void check_together(const std::vector<CentredLanes>& group) {
    const CentredLanes &a = group.front(), &b = group.back();
    Shape x = a.parameter->value().shape(), y = b.parameter->value().shape();
    CBWC_CHECK(b.lane.block == b.lane.end - b.lane.start, "fold: '", b.parameter->name(),
               "' is centred with others and in blocks");
    x[static_cast<size_t>(a.lane.axis)] = 1;
    y[static_cast<size_t>(b.lane.axis)] = 1;
    CBWC_CHECK(a.lane.axis == b.lane.axis && x == y, "fold: '", a.parameter->name(), "' and '",
               b.parameter->name(), "' cannot be centred together: shapes ",
               to_string(a.parameter->value().shape()), " and ",
               to_string(b.parameter->value().shape()));
  }

  void find_ties() {
    for (const Tie& tie : plan_.ties) {
      auto* head = dynamic_cast<TiedLinear*>(find(tie.head));
      CBWC_CHECK(head != nullptr, "fold: '", tie.head, "' shares '", tie.parameter,
                 "' but is not a tied head");
      CBWC_CHECK(plan_.tied == HeadTie::runtime || head->state() == TiedLinear::State::tied,
                 "fold: the tie of '", tie.head, "' was already settled: ", head->describe());
      const ParameterPtr table = parameter(tie.parameter);
      for (const CentredParameter& c : plan_.centre) {
        if (c.parameter != tie.parameter) continue;
        CBWC_CHECK(plan_.tied != HeadTie::runtime, "fold: '", tie.parameter,
                   "' stays as it is with a run-time centring, the plan centres it");
        CBWC_CHECK(table->value().rank() == 2 && c.lane == whole_axis(table->value().shape(), 1) &&
                       c.scale.empty() && c.together == 0,
                   "fold: the tied table '", tie.parameter, "' of shape ",
                   to_string(table->value().shape()), " can only be centred row by row");
      }
      ties_.push_back({head, table});
    }
  }

  void find_affine() {
    for (const AffineFold& a : plan_.affine) {
      if (!a.skipped.empty()) continue;
      Affine affine{parameter(a.gamma), a.beta.empty() ? nullptr : parameter(a.beta), {}};
      const int64_t width = affine.gamma->value().numel();
      for (const AffineFold::Reader& r : a.readers) {
        affine.readers.emplace_back(parameter(r.weight),
                                    r.bias.empty() ? nullptr : parameter(r.bias));
        const Tensor& weight = affine.readers.back().first->value();
        CBWC_CHECK(weight.rank() == 2 && weight.size(1) == width, "fold: '", r.weight,
                   "' of shape ", to_string(weight.shape()), " cannot take the gain '", a.gamma,
                   "' of ", width, " channels");
      }
      affine_.push_back(affine);
    }
  }

  void settle_ties() {
    for (const TiedPair& tie : ties_) {
      if (plan_.tied == HeadTie::rank_one)
        tie.head->correct_rank_one(row_means(tie.table->value()));
      if (plan_.tied == HeadTie::untie) tie.head->untie(tie.table->value());
    }
  }

  static void fold_affine(const Affine& a) {
    for (const auto& [weight, bias] : a.readers) {
      if (a.beta != nullptr && bias != nullptr)
        add_product(weight->value(), a.beta->value(), bias->mutate());  // before W changes
      scale_columns(weight->mutate(), a.gamma->value());
    }
    a.gamma->mutate().fill(1.0);
    if (a.beta != nullptr) a.beta->mutate().fill(0.0);
  }

  Module& model_;
  const FoldPlan& plan_;
  std::map<std::string, ParameterPtr> parameters_;
  std::vector<LayerNorm*> norms_;
  std::vector<Module*> auxiliary_, split_, restored_;
  std::vector<CentredLanes> carrying_;  // whole axes
  std::vector<Tensor> means_;           // of each
  std::vector<std::vector<CentredLanes>> groups_;
  std::vector<ParameterPtr> scales_;
  std::vector<TiedPair> ties_;
  std::vector<Affine> affine_;
};

}  // namespace

HeadTie parse_head_tie(const std::string& name) { return parse_choice(kTies, name, "tied"); }
const char* head_tie_name(HeadTie tied) { return choice_name(kTies, tied); }

std::vector<std::string> FoldPlan::changed_parameters() const {
  std::set<std::string> names;
  for (const CentredParameter& c : centre) {
    names.insert(c.parameter);
    if (!c.scale.empty()) names.insert(c.scale);
  }
  for (const AffineFold& a : affine) {
    if (!a.skipped.empty()) continue;
    names.insert(a.gamma);
    if (!a.beta.empty()) names.insert(a.beta);
    for (const AffineFold::Reader& r : a.readers) {
      names.insert(r.weight);
      if (!r.bias.empty()) names.insert(r.bias);
    }
  }
  return {names.begin(), names.end()};
}

FoldPlan plan_fold(const Detection& detection, const FoldOptions& options) {
  FoldPlan plan;
  plan.tied = options.tied;
  for (const DetectedNorm& norm : detection.norms) {
    const bool folds =
        norm.verdict == Verdict::foldable ||
        (norm.verdict == Verdict::foldable_with_auxiliary && options.auxiliary_centring);
    if (folds) plan.norms.push_back(norm.name);
  }
  if (plan.empty()) return plan;
  std::vector<CentredParameter> centre = detection.centre;
  if (options.auxiliary_centring) {
    centre.insert(centre.end(), detection.centre_auxiliary.begin(),
                  detection.centre_auxiliary.end());
    for (const AuxiliaryCentring& a : detection.auxiliary) plan.auxiliary.push_back(a.module);
  }
  std::map<std::string, const Tie*> tied;
  for (const Tie& tie : detection.ties) tied.try_emplace(tie.parameter, &tie);
  for (const CentredParameter& c : centre) {
    const auto tie = tied.find(c.parameter);
    if (plan.tied != HeadTie::runtime || tie == tied.end()) {
      plan.centre.push_back(c);
      continue;
    }
    const std::vector<std::string>& writers = tie->second->writers;
    plan.auxiliary.insert(plan.auxiliary.end(), writers.begin(), writers.end());
    if (writers.empty()) plan.auxiliary.push_back(c.layer);
  }
  for (const Tie& tie : detection.ties) {
    const auto is_tied = [&](const CentredParameter& c) { return c.parameter == tie.parameter; };
    if (std::any_of(centre.begin(), centre.end(), is_tied)) plan.ties.push_back(tie);
  }
  plan.carried = detection.carried;
  std::set<std::string> once;
  const auto again = [&](const std::string& name) { return !once.insert(name).second; };
  plan.auxiliary.erase(std::remove_if(plan.auxiliary.begin(), plan.auxiliary.end(), again),
                       plan.auxiliary.end());
  return plan;
}

void apply_fold(Module& model, const FoldPlan& plan) { Folding(model, plan).apply(); }

}  // namespace cbwc
