#include "experiments/model_setup.h"

#include <algorithm>
#include <filesystem>

#include "core/device_services.h"
#include "optim/decay.h"

namespace cbwc {

Schedule schedule_of(const Config& config) {
  Schedule s;
  s.decline = parse_decline(config.optim.schedule);
  s.peak = config.optim.lr;
  s.minimum = config.optim.lr * config.optim.min_lr_ratio;
  s.warmup = config.optim.warmup;
  s.total = config.run.steps;
  check_schedule(s);
  return s;
}

std::vector<ParameterPtr> ordered_parameters(const Module& model) {
  std::vector<ParameterPtr> parameters = model.parameters();
  std::stable_partition(parameters.begin(), parameters.end(),
                        [](const ParameterPtr& p) { return decays(p->role()); });
  return parameters;
}

void require_cpu(Device device) {
  if (device == Device::cpu) return;
  CBWC_CHECK(cuda::built(), "--device cuda: this build has no CUDA kernels (cmake --preset cuda)");
  CBWC_CHECK(cuda::device_count() > 0, "--device cuda: no GPU was found on this machine");
  detail::fail("--device cuda: not every operation has a CUDA kernel yet, use --device cpu");
}

std::string absolute_path(const std::string& path) {
  if (path.empty()) return path;
  return std::filesystem::absolute(path).lexically_normal().string();
}

void make_paths_absolute(Config& config) {
  config.data.file = absolute_path(config.data.file);
  config.run.init = absolute_path(config.run.init);
  if (std::filesystem::is_regular_file(config.run.pretrain))  // else the name of a shipped config
    config.run.pretrain = absolute_path(config.run.pretrain);
}

}  // namespace cbwc
