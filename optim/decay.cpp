#include "optim/decay.h"

namespace cbwc {
namespace {
enum GroupIndex { kDecay, kNoDecay, kFrozen };
GroupIndex group_of(const Parameter& p) {
  if (!p.trainable()) return kFrozen;
  return decays(p.role()) ? kDecay : kNoDecay;
}
}  // namespace

bool decays(Role role) {
  switch (role) {
    case Role::weight:
    case Role::embedding:
    case Role::position:
      return true;
    case Role::bias:
    case Role::norm_gain:
    case Role::norm_bias:
      return false;
  }
  return false;
}

std::vector<UpdateRange> update_ranges(const FlatParameters& parameters) {
  std::vector<UpdateRange> ranges;
  bool joins = false;  // false after a frozen parameter
  for (size_t i = 0; i < parameters.parameters().size(); ++i) {
    const Parameter& p = *parameters.parameters()[i];
    const int64_t begin = parameters.offsets()[i], end = begin + p.value().numel();
    if (!p.trainable()) {
      joins = false;
      continue;
    }
    const bool decay = decays(p.role());
    // The gap of alignment between two parameters holds zeros, which every update leaves at zero.
    if (joins && ranges.back().decay == decay) {
      ranges.back().end = end;
    } else {
      ranges.push_back({begin, end, decay});
    }
    joins = true;
  }
  return ranges;
}

std::vector<DecayGroup> decay_groups(const FlatParameters& parameters) {
  std::vector<DecayGroup> groups{{"decay", {}, 0}, {"no decay", {}, 0}, {"frozen", {}, 0}};
  for (const ParameterPtr& p : parameters.parameters()) {
    DecayGroup& group = groups[group_of(*p)];
    group.parameters.push_back(p->name());
    group.elements += p->value().numel();
  }
  return groups;
}

std::string decay_report(const FlatParameters& parameters) {
  static const char* const names[] = {"decay", "no decay", "frozen"};
  std::string out;
  for (const ParameterPtr& p : parameters.parameters()) {
    out += fmt::format("{:<9} {:<10} {} {}\n", names[group_of(*p)], role_name(p->role()), p->name(),
                       to_string(p->value().shape()));
  }
  return out;
}

}  // namespace cbwc
