// Element types and devices, and the one switch from a run-time DType to a compile-time type.
#pragma once
#include <cstdint>
#include <type_traits>

#include "core/check.h"

namespace cbwc {

enum class DType { f32, f64, i32, i64 };
enum class Device { cpu, cuda };

size_t dtype_size(DType dtype);         // bytes per element
const char* dtype_name(DType dtype);    // "float32", "float64", "int32", "int64"
DType parse_dtype(const std::string&);  // the inverse; Error for any other name
inline bool is_float(DType dtype) { return dtype == DType::f32 || dtype == DType::f64; }

template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>) return DType::f32;
  if constexpr (std::is_same_v<T, double>) return DType::f64;
  if constexpr (std::is_same_v<T, int32_t>) return DType::i32;
  if constexpr (std::is_same_v<T, int64_t>) return DType::i64;
}

// dispatch_float(dtype, "layer_norm", [&](auto zero) { using T = decltype(zero); ... });
template <class F>
decltype(auto) dispatch_float(DType dtype, const char* who, F&& f) {
  if (dtype == DType::f32) return f(float{});
  if (dtype == DType::f64) return f(double{});
  detail::fail(who, ": expected float32 or float64, got ", dtype_name(dtype));
}
template <class F>
decltype(auto) dispatch_int(DType dtype, const char* who, F&& f) {
  if (dtype == DType::i32) return f(int32_t{});
  if (dtype == DType::i64) return f(int64_t{});
  detail::fail(who, ": expected int32 or int64, got ", dtype_name(dtype));
}
template <class F>
decltype(auto) dispatch_all(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32:
      return f(float{});
    case DType::f64:
      return f(double{});
    case DType::i32:
      return f(int32_t{});
    default:
      return f(int64_t{});
  }
}

}  // namespace cbwc
