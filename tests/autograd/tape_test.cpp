#include "autograd/tape.h"

#include <pthread.h>

#include <fstream>

#include "autograd/gradient_check.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "core/allocator.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/op_case.h"

using namespace cbwc;
using namespace cbwc::testing;

namespace {

Tensor number(double value) { return Tensor::full({}, value, DType::f64); }

ParameterPtr parameter(const std::string& name, double value) {
  return std::make_shared<Parameter>(name, Tensor::full({1}, value, DType::f64), Role::weight);
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

struct DeepChain {
  int depth = 0;
  double y = 0, dy = 0;
  std::string error;
};

void run_chain(DeepChain& chain) {
  Tape tape;
  TapeScope scope(&tape);
  const Variable x = tape.leaf(number(1.0), true);
  Variable y = x;
  for (int i = 0; i < chain.depth; ++i) y = add(y, scale(y, 1e-6));
  tape.backward(y);
  chain.y = y.value().item();
  chain.dy = tape.grad(x).item();
}

void* chain_thread(void* argument) {
  auto& chain = *static_cast<DeepChain*>(argument);
  try {
    run_chain(chain);
  } catch (const std::exception& e) {
    chain.error = e.what();
  }
  return nullptr;
}

// The address sanitizer holds freed blocks back for a while, to find who still uses them.
#ifdef __SANITIZE_ADDRESS__
constexpr bool kKeepsFreedBlocks = true;
#else
constexpr bool kKeepsFreedBlocks = false;
#endif

int64_t resident_pages() {
  std::ifstream file("/proc/self/statm");
  int64_t total = 0, resident = 0;
  file >> total >> resident;
  return resident;
}

}  // namespace

TEST_CASE("P38: a chain of 100,000 links in a stack of 1 MiB") {
  DeepChain chain;
  chain.depth = 100000;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  REQUIRE(pthread_attr_setstacksize(&attributes, size_t{1} << 20) == 0);
  pthread_t thread;
  REQUIRE(pthread_create(&thread, &attributes, chain_thread, &chain) == 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  CHECK(chain.error.empty());
  CHECK(std::abs(chain.y - 1.10517086282) < 1e-9);
  CHECK(std::abs(chain.dy - 1.10517086282) < 1e-9);
}

TEST_CASE("P39: a parameter changed before backward is an error that names it") {
  const ParameterPtr w = parameter("layer.w", 3.0);
  Tape tape;
  TapeScope scope(&tape);
  const Variable x = tape.leaf(Tensor::full({1}, 2.0, DType::f64), true);
  const Variable y = mul(tape.use(w), x);
  w->mutate().fill(4.0);
  CHECK(contains(message_of([&] { tape.backward(y); }), "layer.w"));
}

TEST_CASE("P40: a parameter without a gradient is an error that names it") {
  const ParameterPtr used = parameter("used", 2.0), unused = parameter("unused", 2.0);
  const auto build = [&](Tape& tape) {
    TapeScope scope(&tape);
    const Variable side = mul(tape.use(unused), tape.use(used));
    (void)side;
    return sum(mul(tape.use(used), tape.use(used)));
  };
  {
    Tape tape;
    const Variable loss = build(tape);
    CHECK(contains(message_of([&] { tape.backward(loss); }), "unused"));
  }
  used->clear_grad();
  {
    Tape tape;
    const Variable loss = build(tape);
    tape.backward(loss, {.allow_unused = true});
    CHECK(used->grad().item() == 4.0);
    CHECK_FALSE(unused->has_grad());
  }
  unused->set_trainable(false);
  Tape tape;
  const Variable loss = build(tape);
  CHECK_NOTHROW(tape.backward(loss));
}

TEST_CASE("P41: no history is kept from step to step") {
  const ParameterPtr w = parameter("w", 1.0);
  const int64_t nodes = Tape::live_nodes();
  double total = 0;
  size_t live = 0;
  int64_t resident = 0;
  for (int step = 0; step < 1000; ++step) {
    {
      Tape tape;
      TapeScope scope(&tape);
      const Variable x(Tensor::full({1000}, 0.5, DType::f64));
      const Variable loss = sum(mul(mul(tape.use(w), x), x));
      tape.backward(loss);
      total += loss.value().item();
    }
    w->clear_grad();
    CHECK(Tape::live_nodes() == nodes);
    if (step == 10) {
      live = memory_stats(Device::cpu).live;
      resident = resident_pages();
    }
  }
  CHECK(total == 250.0 * 1000);
  CHECK(memory_stats(Device::cpu).live == live);
  // 1 MiB; keeping the history would take 24 MB.
  if (!kKeepsFreedBlocks) CHECK(resident_pages() - resident < 256);
}

TEST_CASE("P42: gradients accumulate, are cleared, and a freed tape refuses") {
  const ParameterPtr x = parameter("x", 3.0);
  const auto backward = [&] {
    Tape tape;
    TapeScope scope(&tape);
    const Variable v = tape.use(x);
    tape.backward(mul(v, v));
  };
  backward();
  CHECK(x->grad().item() == 6.0);
  backward();
  CHECK(x->grad().item() == 12.0);
  x->clear_grad();
  CHECK_THROWS_AS(x->grad(), Error);
  backward();
  CHECK(x->grad().item() == 6.0);

  Tape tape;
  TapeScope scope(&tape);
  const Variable v = tape.use(x);
  const Variable y = mul(v, v);
  x->clear_grad();
  tape.backward(y, {.keep_data = true});
  tape.backward(y);
  CHECK(x->grad().item() == 12.0);
  CHECK(contains(message_of([&] { tape.backward(y); }), "freed"));
}

TEST_CASE("second derivatives are refused clearly") {
  Tape tape;
  TapeScope scope(&tape);
  const Variable x = tape.leaf(number(2.0), true);
  const Variable y = mul(x, x);
  CHECK(contains(message_of([&] { tape.backward(y, {.create_graph = true}); }),
                 "second derivatives"));
  tape.backward(y);
  CHECK(tape.grad(x).item() == 4.0);
}

TEST_CASE("a gradient buffer with another reader is not written (rule 5)") {
  // add hands one buffer to both of its inputs; each then gets another contribution.
  const auto f = [](const std::vector<Variable>& x) {
    const Variable a = scale(x[0], 2.0), b = scale(x[1], 3.0);
    const Variable both = add(a, b);
    return add(add(both, mul(a, a)), add(mul(b, both), reshape(a, {2, 3})));
  };
  const std::vector<Tensor> inputs{sample({2, 3}, 1, "a"), sample({2, 3}, 1, "b")};
  CHECK(check_jacobian(f, inputs).relative_error < kGradientTolerance);

  Tape tape;
  TapeScope scope(&tape);
  const Variable x = tape.leaf(number(5.0), true), z = tape.leaf(number(7.0), true);
  const Variable y = add(x, z);  // dx and dz start as the same buffer
  tape.backward(add(y, scale(x, 10.0)));
  CHECK(tape.grad(x).item() == 11.0);
  CHECK(tape.grad(z).item() == 1.0);
}

TEST_CASE("structure outlives backward, and constants need no gradient") {
  Tape tape;
  TapeScope scope(&tape);
  const Variable x = tape.leaf(sample({2, 3}, 1, "x"), true);
  Variable loss;
  {
    ScopeGuard outer("blocks"), inner("0");
    loss = sum(mul(x, Variable(sample({3}, 1, "c"))), {1});
    loss = sum(loss);
  }
  const auto check = [&] {
    REQUIRE(tape.nodes().size() == 3);
    CHECK(std::string(tape.nodes()[0].op->name()) == "mul");
    CHECK(tape.nodes()[0].scope == "blocks.0");
    const auto& op = dynamic_cast<const ReduceOp&>(*tape.nodes()[1].op);
    CHECK(op.axes == std::vector<int>{1});
    CHECK(op.in_shape == Shape{2, 3});
    CHECK_FALSE(tape.values()[tape.nodes()[0].inputs[1]].needs_grad);
  };
  check();
  tape.backward(loss);
  check();
}

TEST_CASE("what backward and record refuse") {
  Tape tape, other;
  TapeScope scope(&tape);
  const Variable x = tape.leaf(sample({2}, 1, "x"), true);
  CHECK_THROWS_AS(tape.backward(x), Error);
  CHECK_THROWS_AS(other.backward(sum(x)), Error);
  CHECK_THROWS_AS(tape.grad(x), Error);
  CHECK_THROWS_AS(tape.leaf(Tensor::zeros({2}, DType::i32), true), Error);
  const Variable foreign = other.leaf(sample({2}, 1, "y"), true);
  CHECK_THROWS_AS(add(x, foreign), Error);
  {
    TapeScope off(nullptr);
    CHECK(add(x, x).tape() == nullptr);
  }
  CHECK(Tape::current() == &tape);
}
