#include "core/dtype.h"

namespace cbwc {

size_t dtype_size(DType dtype) { return dtype == DType::f64 || dtype == DType::i64 ? 8 : 4; }

const char* dtype_name(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "float32";
    case DType::f64:
      return "float64";
    case DType::i32:
      return "int32";
    default:
      return "int64";
  }
}

DType parse_dtype(const std::string& name) {
  for (DType dtype : {DType::f32, DType::f64, DType::i32, DType::i64})
    if (name == dtype_name(dtype)) return dtype;
  detail::fail("dtype '", name, "': expected float32, float64, int32 or int64");
}

}  // namespace cbwc
