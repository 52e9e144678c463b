// cbwc info: the machine, the BLAS build with its kernels and speed, threads, devices, build
// options.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "core/device_services.h"
#include "core/kernels/blas.h"
#include "core/parallel.h"
#include "experiments/command.h"
#include "experiments/json_output.h"

namespace cbwc {
namespace {

// Best of a few warm 1024-cube float32 products.
double gemm_speed() {
  constexpr int64_t n = 1024;
  const std::vector<float> a(n * n, 0.5f), b(n * n, 0.25f);
  std::vector<float> c(n * n);
  double best = 0;
  for (int i = 0; i < 6; ++i) {
    const auto start = std::chrono::steady_clock::now();
    cpu::gemm<float>(false, false, n, n, n, 1.0f, a.data(), n, b.data(), n, 0.0f, c.data(), n);
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    best = std::max(best, 2.0 * n * n * n / spent.count() * 1e-9);
  }
  return best;
}

int run_info(const CommandContext& context) {
  const nlohmann::json machine = machine_json(context.global.device);
  const BlasInfo blas = blas_info();
  const double speed = gemm_speed();
  fmt::print("version   {}\n", CBWC_VERSION);
  fmt::print("cpu       {}\n", machine["cpu"].get<std::string>());
  fmt::print("threads   {}\n", threads());
  fmt::print("blas      {} ({})\n", blas.library, blas.config);
  fmt::print("kernels   {}{}, {:.0f} GFLOP/s (1024-cube, float32)\n", blas.kernels,
             blas.user_set ? " (set by OPENBLAS_CORETYPE)" : "", speed);
  const std::string gpu = !cuda::built()             ? "not built in"
                          : cuda::device_count() > 0 ? cuda::device_name()
                                                     : "built in, no GPU found";
  fmt::print("cuda      {}\n", gpu);
  fmt::print("build     {}, native {}\n", CBWC_BUILD_TYPE, CBWC_NATIVE ? "on" : "off");
  for (const std::string& warning : blas.warnings) fmt::print(stderr, "warning: {}\n", warning);
  write_command_json(context, "info", nlohmann::json::object(),
                     {{"gflop_per_s", json_number(speed)},
                      {"blas_openmp", blas.openmp},
                      {"cuda_built", cuda::built()},
                      {"cuda_devices", cuda::device_count()},
                      {"build_type", CBWC_BUILD_TYPE},
                      {"native", static_cast<bool>(CBWC_NATIVE)},
                      {"warnings", blas.warnings}});
  return 0;
}

}  // namespace

void add_info_command(CommandLine app, CommandContext& context) {
  CommandLine command =
      app.add_subcommand("info", "machine, BLAS kernels and speed, build options");
  command.callback([&context] { context.exit_code = run_info(context); });
}

}  // namespace cbwc
