#include "autograd/analysis/waves.h"

namespace cbwc {

int Waves::start(int value, const Lane& lane, int skip) {
  const auto [at, fresh] =
      numbers_.try_emplace({value, skip, lane}, static_cast<int>(waves_.size()));
  if (fresh) waves_.push_back({value, lane, skip});
  return at->second;
}

bool Waves::can_serve(int w) const {
  const Wave& x = waves_[w];
  const GraphValue& v = graph_.values[x.value];
  return carry_mean_ && v.parameter.empty() &&
         x.lane.axis + 1 == static_cast<int>(v.shape.size()) && is_whole(x.lane, v.shape);
}

void Waves::spoil(int w, int node, const std::string& reason) {
  if (waves_[w].spoilt) return;
  waves_[w].spoilt = true;
  waves_[w].node = node;
  waves_[w].reason = reason;
}

// What one reader makes of a wave, whichever of its inputs it comes in by.
void Waves::pass_on(int w, int reader) {
  const GraphNode& node = graph_.nodes[reader];
  const int value = waves_[w].value;
  const auto meets = [&](const std::string& reason) {
    can_serve(w) ? waves_[w].served.push_back(reader) : spoil(w, reader, reason);
  };
  for (int i = 0; i < static_cast<int>(node.inputs.size()); ++i) {
    if (node.inputs[i] != value) continue;
    const Shift s = shift(graph_, reader, i, waves_[w].lane);
    switch (s.kind) {
      case Shift::blind:
        // Blind to a shift, but not to one more channel, which only our norms leave aside.
        if (can_serve(w) && node.op != "layer_norm") waves_[w].blind.push_back(reader);
        break;
      case Shift::tied:
        graph_.values[value].parameter.empty() ? meets(s.reason) : waves_[w].ties.push_back(reader);
        break;
      case Shift::carries:
        for (int out : node.outputs) {
          const int next = start(out, s.lane);
          waves_[next].sources.push_back({w, reader});
          waves_[w].next.push_back(next);
        }
        break;
      case Shift::spoils:
        meets(s.reason);
    }
  }
}

void Waves::follow(int w) {
  const GraphValue& v = graph_.values[waves_[w].value];
  if (v.output) spoil(w, v.producer, "is an output of the network");
  for (int reader : v.readers) {
    if (reader != waves_[w].skip) pass_on(w, reader);
  }
}

void Waves::send() {
  for (; followed_ < waves_.size(); ++followed_) follow(static_cast<int>(followed_));
  std::vector<int> queue;
  for (size_t w = 0; w < waves_.size(); ++w) {
    if (waves_[w].spoilt) queue.push_back(static_cast<int>(w));
  }
  for (size_t i = 0; i < queue.size(); ++i) {
    const int met = queue[i];
    for (const Source& s : waves_[met].sources) {
      if (waves_[s.wave].spoilt) continue;
      // The last place where the mean can still be added back is in front of this reader.
      if (s.reader >= 0 && can_serve(s.wave) && !can_serve(met)) {
        waves_[s.wave].served.push_back(s.reader);
        continue;
      }
      spoil(s.wave, waves_[met].node, waves_[met].reason);
      queue.push_back(s.wave);
    }
  }
}

Waves::Servings Waves::served(const std::vector<int>& waves) const {
  std::vector<int> stack = waves;
  std::set<int> seen;
  Servings found, blind;
  while (!stack.empty()) {
    const int w = stack.back();
    stack.pop_back();
    if (!seen.insert(w).second) continue;
    for (int n : waves_[w].served) found.insert({waves_[w].value, n});
    for (int n : waves_[w].blind) blind.insert({waves_[w].value, n});
    // What is served does not get the shift.
    for (int next : waves_[w].next) {
      if (!waves_[next].spoilt) stack.push_back(next);
    }
  }
  if (!found.empty()) found.insert(blind.begin(), blind.end());
  return found;
}

}  // namespace cbwc
