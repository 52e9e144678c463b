#include "experiments/hf_fill.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <regex>

#include "core/text.h"
#include "experiments/hf_extents.h"
#include "layers/compare.h"

namespace cbwc {
namespace {

constexpr size_t kNamed = 8;  // of many tensors that something is wrong with

std::string listed(const std::vector<std::string>& names) {
  std::string out;
  for (size_t i = 0; i < names.size() && i < kNamed; ++i) out += (i ? ", " : "") + names[i];
  if (names.size() > kNamed) out += fmt::format(", and {} more", names.size() - kNamed);
  return out;
}

// TensorFlow's names of a norm's gain and bias.
std::string old_name(const std::string& name) {
  for (const auto& [now, before] :
       {std::pair<std::string, std::string>{"weight", "gamma"}, {"bias", "beta"}})
    if (name.ends_with("LayerNorm." + now))
      return name.substr(0, name.size() - now.size()) + before;
  return "";
}

void check_finite(const Tensor& x, const std::string& name) {
  if (all_finite(x)) return;
  dispatch_float(x.dtype(), "import", [&](auto zero) {
    const auto* v = x.data<decltype(zero)>();
    for (int64_t i = 0; i < x.numel(); ++i)
      CBWC_CHECK(std::isfinite(v[i]), "tensor ", name, " holds ", v[i], " at element ", i);
  });
}

// Whether theirs lie in ours one after the other, element by element: then they are read into
// their place without a copy in between.
bool lies_alike(HfLayout layout) {
  return layout == HfLayout::same || layout == HfLayout::stacked || layout == HfLayout::patches;
}

std::string described(const Safetensors::Entry& e) {
  return fmt::format("{} {} {}", e.name, stored_name(e.type), to_string(e.shape));
}

}  // namespace

HfFiller::HfFiller(const Safetensors& file, const HfTable& table, const HfDescription& description)
    : file_(file),
      table_(table),
      description_(description),
      sizes_(hf_sizes(description.config, description.shape)) {
  for (const Entry& e : file.entries()) bare_ &= !e.name.starts_with(table.prefix);
}

void HfFiller::check_header() {
  find_all();
  note_twins();
  check_rest();
  check_extents();
  // With a few missing, the shapes of the others are still named, in fill().
  if (!misshapen_.empty() || missing_.size() > read_.size()) refuse_what_is_wrong();
}

void HfFiller::fill(Model& model) {
  for (const HfTensor& t : table_.tensors) fill_one(t, model);
  refuse_what_is_wrong();
  check_twins();
}

const Safetensors::Entry* HfFiller::find(const std::string& name) const {
  const std::string bare =
      bare_ && name.starts_with(table_.prefix) ? name.substr(table_.prefix.size()) : name;
  const Entry* found = file_.find(bare);
  return found != nullptr ? found : file_.find(old_name(bare));
}

// P61: a tensor with two names may be in the file by either.
const Safetensors::Entry* HfFiller::find_or_twin(const std::string& name) const {
  const Entry* found = find(name);
  for (const HfTwin& twin : table_.twins)
    if (found == nullptr && twin.owner == name) found = find(twin.name);
  return found;
}

void HfFiller::find_all() {
  for (const HfTensor& t : table_.tensors)
    for (const std::string& name : t.theirs) {
      if (const Entry* e = find_or_twin(name))
        read_.insert(e->name);
      else
        missing_.push_back(name);
    }
}

void HfFiller::note_twins() {
  for (const HfTwin& twin : table_.twins) {
    const Entry *second = find(twin.name), *owner = find(twin.owner);
    if (second != nullptr) read_.insert(second->name);
    if (second == nullptr)
      notes_.push_back(twin.name + ": not in the file, tied to " + twin.owner);
    else if (owner == nullptr)
      notes_.push_back(twin.owner + ": not in the file, tied to " + twin.name);
  }
}

void HfFiller::check_twins() const {
  for (const HfTwin& twin : table_.twins) {
    const Entry *second = find(twin.name), *owner = find(twin.owner);
    if (second == nullptr || owner == nullptr) continue;
    const bool same = second->shape == owner->shape && second->type == owner->type;
    const Tensor a = file_.read(*second), b = file_.read(*owner);
    CBWC_CHECK(same && std::memcmp(a.raw(), b.raw(), a.bytes()) == 0, second->name, " is not ",
               owner->name, ", but ", twin.why);
  }
}

void HfFiller::check_extents() {
  for (const HfExtent& x : hf_extents(description_.config, description_.shape)) {
    const Entry* e = find_or_twin(x.tensor);
    if (e == nullptr) return refuse_what_is_wrong();  // a size that nothing in the file bounds
    if (x.axis < e->shape.size() && e->shape[x.axis] == x.extent) continue;
    misshapen_.push_back(
        fmt::format("{}, but config.json's {} is {}", described(*e), x.key, x.value));
  }
}

void HfFiller::check_rest() {
  std::vector<std::regex> patterns;
  for (const HfUnread& unread : table_.unread) patterns.emplace_back(unread.pattern);
  std::vector<int64_t> counts(patterns.size());
  for (const Entry& e : file_.entries()) {
    if (read_.count(e.name) != 0) continue;
    const std::string name = printable(e.name);
    size_t i = 0;
    while (i < patterns.size() && !std::regex_match(e.name, patterns[i])) ++i;
    if (i == patterns.size()) {
      unknown_.push_back(name + " " + to_string(e.shape));
      continue;
    }
    const HfUnread& unread = table_.unread[i];
    if (unread.kept) kept_[e.name] = file_.read(e);
    if (++counts[i] == 1)
      notes_.push_back(name + (unread.kept ? ": kept, not read: " : ": not read: ") +
                       unread.reason);
  }
}

void HfFiller::refuse_what_is_wrong() const {
  std::string all;
  const auto add = [&](const char* what, const std::vector<std::string>& names) {
    if (!names.empty()) all += (all.empty() ? "" : "; ") + std::string(what) + listed(names);
  };
  add("missing: ", missing_);
  add("of another shape: ", misshapen_);
  add("not known: ", unknown_);
  CBWC_CHECK(all.empty(), all);
}

void HfFiller::fill_one(const HfTensor& t, Model& model) {
  const ParameterPtr p = model.parameter(t.ours);
  const Shape expected = hf_shape(t, p->value().shape(), sizes_);
  std::vector<Tensor> parts;
  for (const std::string& name : t.theirs) {
    const Entry* e = find_or_twin(name);
    if (e == nullptr) continue;
    if (e->shape != expected || !is_float(dtype_of_stored(e->type))) {
      misshapen_.push_back(fmt::format("{}, expected {}", described(*e), to_string(expected)));
      continue;
    }
    parts.push_back(read(t, *e, std::ssize(parts), p->mutate()));
    check_finite(parts.back(), e->name);
  }
  if (parts.size() == t.theirs.size() && !parts[0].shares_storage(p->value()))
    from_hf(t, parts, sizes_, p->mutate());
}

// Into its place in `ours`, where that has its layout and type.
Tensor HfFiller::read(const HfTensor& t, const Entry& e, int64_t part, Tensor& ours) const {
  const auto parts = std::ssize(t.theirs);
  const bool in_place =
      lies_alike(t.layout) && ours.is_contiguous() && ours.dtype() == dtype_of_stored(e.type);
  if (!in_place) return file_.read(e);
  const int64_t each = ours.numel() / parts;
  Tensor place = ours.reshape({ours.numel()}).slice(0, part * each, (part + 1) * each);
  file_.read(e, place);
  return place;
}

}  // namespace cbwc
