// How a fold is told, to a person and to scripts.
#include <fmt/ranges.h>

#include <algorithm>

#include "experiments/fold.h"
#include "experiments/fold_plan.h"
#include "experiments/json_output.h"

namespace cbwc {
namespace {

struct Worst {
  nlohmann::json max_abs, max_rel, agreement;  // null: nothing was compared
};

// Over all inputs, of the type whose weights were or would have been written.
Worst worst_of(const FoldReport& r) {
  std::vector<Verification> all = r.verifications;
  for (const HalfError& h : r.half) all.push_back(h.fold);
  std::erase_if(all, [&](const Verification& v) { return v.dtype != r.dtype; });
  if (all.empty()) return {};
  double max_abs = 0, max_rel = 0, agreement = 1;
  for (const Verification& v : all) {
    max_abs = std::max(max_abs, v.max_abs);
    max_rel = std::max(max_rel, v.max_rel);
    agreement = std::min(agreement, v.argmax_agreement);
  }
  return {json_number(max_abs), json_number(max_rel), json_number(agreement)};
}

}  // namespace

std::string fold_text(const FoldReport& r) {
  std::string out;
  for (const std::string& note : r.notes) out += "note: " + note + "\n";
  if (r.plan.empty())
    return out + fmt::format("nothing to fold in {}: {}; nothing was written\n", r.model,
                             r.norms == 0 ? "it has no LayerNorm"
                                          : fmt::format("none of its {} LayerNorms is foldable "
                                                        "(see cbwc detect)",
                                                        r.norms));
  out += fmt::format("{} of {} LayerNorms became RMSNorm, {} parameters centred ({:.0f} ms)\n",
                     r.plan.norms.size(), r.norms, r.plan.centre.size(), r.fold_ms);
  for (const Tie& tie : r.plan.ties)
    out += fmt::format("tie of {} with {}: {}, {:+} bytes\n", tie.parameter, tie.head,
                       head_tie_name(r.plan.tied), r.extra_bytes);
  for (const std::string& module : r.plan.auxiliary)
    out += fmt::format("what {} returns is centred at run time\n", module);
  const CarriedMeans& carried = r.plan.carried;
  if (carried.serves > 0)
    out += fmt::format(
        "{} of them by carrying means: added back before {}; one more channel from {} parameters{}"
        "\n",
        carried.serves, fmt::join(carried.readers, ", "),
        std::count_if(r.plan.centre.begin(), r.plan.centre.end(),
                      [](const CentredParameter& c) { return c.carries_mean; }),
        carried.projected.empty()
            ? ""
            : fmt::format("; split off at run time after {}", fmt::join(carried.projected, ", ")));
  for (const AffineFold& a : r.plan.affine)
    out +=
        a.skipped.empty()
            ? fmt::format("gain and bias of {}: folded into {} readers\n", a.norm, a.readers.size())
            : fmt::format("gain and bias of {}: left in place, {}\n", a.norm, a.skipped);
  for (const Verification& v : r.verifications)
    out += fmt::format(
        "{}, {} positions of {}: largest difference {:.2e} ({:.2e} relative), likeliest answer "
        "equal at {:.2f} %{}\n",
        v.dtype, v.positions, v.input, v.max_abs, v.max_rel, 100 * v.argmax_agreement,
        v.passed ? "" : ": NOT EQUAL");
  for (const HalfError& h : r.half)
    out += fmt::format(
        "{} weights, {} positions of {}: largest difference {:.2e} ({:.2e} relative), likeliest "
        "answer equal at {:.2f} %; rounding alone ({}): {:.2e} ({:.2e}), {:.2f} %\n",
        h.fold.dtype, h.fold.positions, h.fold.input, h.fold.max_abs, h.fold.max_rel,
        100 * h.fold.argmax_agreement, h.rounding_of, h.rounding.max_abs, h.rounding.max_rel,
        100 * h.rounding.argmax_agreement);
  if (r.failed) return out;
  if (r.dropped_moments > 0)
    out += fmt::format(
        "{} optimiser tensors were left out: they belong to the weights before the fold\n",
        r.dropped_moments);
  return out + r.out + "\n";
}

nlohmann::json fold_json(const FoldReport& r) {
  const Worst worst = worst_of(r);
  nlohmann::json out = {
      {"norms", r.norms},
      {"folded", r.plan.norms.size()},
      {"auxiliary", r.plan.auxiliary.size()},
      {"carried", r.plan.carried.serves},
      {"tied", r.plan.ties.empty() ? nlohmann::json() : head_tie_name(r.plan.tied)},
      {"dtype", r.dtype},
      {"max_abs_difference", worst.max_abs},
      {"max_rel_difference", worst.max_rel},
      {"argmax_agreement", worst.agreement},
      {"extra_bytes", r.extra_bytes},
      {"dropped_moments", r.dropped_moments},
      {"fold_ms", r.fold_ms},
      {"written", !r.failed && !r.plan.empty()},
      {"verification", verifications_json(r.verifications)},
      {"plan", plan_json(r.plan)},
      {"notes", r.notes}};
  if (!r.stored.empty()) out["stored"] = r.stored;
  if (!r.half.empty()) out["half"] = half_json(r.half);
  return out;
}

nlohmann::json half_json(const std::vector<HalfError>& half) {
  nlohmann::json out = nlohmann::json::array();
  for (const HalfError& h : half)
    out.push_back({{"input", h.fold.input},
                   {"dtype", h.fold.dtype},
                   {"fold", verification_json(h.fold)},
                   {"rounding", verification_json(h.rounding)},
                   {"rounding_of", h.rounding_of}});
  return out;
}

}  // namespace cbwc
