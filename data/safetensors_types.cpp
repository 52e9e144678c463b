#include "data/safetensors_types.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/parallel.h"

namespace cbwc {
namespace {

constexpr int64_t kGrain = 1 << 16;

struct TypeRow {
  StoredType type;
  const char* name;
  size_t size;
  DType dtype;
};
constexpr std::array<TypeRow, 10> kTypes = {{{StoredType::f64, "F64", 8, DType::f64},
                                             {StoredType::f32, "F32", 4, DType::f32},
                                             {StoredType::f16, "F16", 2, DType::f32},
                                             {StoredType::bf16, "BF16", 2, DType::f32},
                                             {StoredType::i64, "I64", 8, DType::i64},
                                             {StoredType::i32, "I32", 4, DType::i32},
                                             {StoredType::i16, "I16", 2, DType::i32},
                                             {StoredType::i8, "I8", 1, DType::i32},
                                             {StoredType::u8, "U8", 1, DType::i32},
                                             {StoredType::boolean, "BOOL", 1, DType::i32}}};

const TypeRow& row_of(StoredType type) { return kTypes[static_cast<size_t>(type)]; }

float half_to_float(uint16_t bits) {
  const uint32_t exponent = bits >> 10 & 0x1f, mantissa = bits & 0x3ff;
  const float sign = (bits & 0x8000) != 0 ? -1.0f : 1.0f;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), -24);
  const uint32_t high = static_cast<uint32_t>(bits & 0x8000) << 16;
  if (exponent == 31) return std::bit_cast<float>(high | 0x7f800000u | mantissa << 13);
  return std::bit_cast<float>(high | (exponent + 112) << 23 | mantissa << 13);
}

float bfloat_to_float(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

// Sixteen bits: sign, `exponent_bits`, the rest. One rounding from double, also below the normal
// range.
uint16_t to_16_bits(double x, int exponent_bits) {
  const int digits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
  const uint16_t infinity = static_cast<uint16_t>(((1 << exponent_bits) - 1) << digits);
  const uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  if (std::isnan(x)) return sign | infinity | static_cast<uint16_t>(1 << (digits - 1));
  x = std::abs(x);
  if (std::isinf(x)) return sign | infinity;
  if (x == 0) return sign;
  const int exponent = std::max(std::ilogb(x), 1 - bias);
  // In units of the last place; a carry into the next power of two carries into the exponent too.
  const double units = std::nearbyint(std::ldexp(x, digits - exponent));
  const int64_t bits =
      static_cast<int64_t>(units) + (static_cast<int64_t>(exponent + bias - 1) << digits);
  return sign | static_cast<uint16_t>(std::min<int64_t>(bits, infinity));
}

// to[i] = f(the i-th stored S)
template <class S, class T, class F>
void widen_each(const unsigned char* from, const Tensor& to, const F& f) {
  T* out = to.data<T>();
  parallel_for(to.numel(), kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      S value;
      std::memcpy(&value, from + i * static_cast<int64_t>(sizeof(S)), sizeof(S));
      out[i] = f(value);
    }
  });
}

template <class S>
std::string narrow_integers(const Tensor& from, const std::string& who) {
  std::string out(static_cast<size_t>(from.numel()) * sizeof(S), '\0');
  dispatch_int(from.dtype(), "safetensors", [&](auto zero) {
    const auto* in = from.data<decltype(zero)>();
    for (int64_t i = 0; i < from.numel(); ++i) {
      const auto value = static_cast<S>(in[i]);
      CBWC_CHECK(static_cast<int64_t>(value) == static_cast<int64_t>(in[i]), who, ": ", in[i],
                 " does not fit its type");
      std::memcpy(out.data() + static_cast<size_t>(i) * sizeof(S), &value, sizeof(S));
    }
  });
  return out;
}

// From here on a magnitude is rounded to infinity.
double limit_of(StoredType type) {
  switch (type) {
    case StoredType::f16:
      return 65520;
    case StoredType::bf16:
      return 0x1.FFp127;
    case StoredType::f32:
      return 0x1.FFFFFFp127;
    default:
      return HUGE_VAL;
  }
}

void check_range(StoredType type, const Tensor& from, const std::string& who) {
  const double limit = limit_of(type);
  dispatch_float(from.dtype(), "safetensors", [&](auto zero) {
    const auto* in = from.data<decltype(zero)>();
    for (int64_t i = 0; i < from.numel(); ++i)
      CBWC_CHECK(!(std::abs(static_cast<double>(in[i])) >= limit) || std::isinf(in[i]), who,
                 " holds ", in[i], " at element ", i, ", more than ", stored_name(type),
                 " can hold");
  });
}

std::string narrow_to_16(const Tensor& from, int exponent_bits) {
  std::string out(static_cast<size_t>(from.numel()) * 2, '\0');
  dispatch_float(from.dtype(), "safetensors", [&](auto zero) {
    const auto* in = from.data<decltype(zero)>();
    parallel_for(from.numel(), kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const uint16_t bits = to_16_bits(static_cast<double>(in[i]), exponent_bits);
        std::memcpy(out.data() + 2 * i, &bits, 2);
      }
    });
  });
  return out;
}

}  // namespace

const char* stored_name(StoredType type) { return row_of(type).name; }
size_t stored_size(StoredType type) { return row_of(type).size; }
DType dtype_of_stored(StoredType type) { return row_of(type).dtype; }

std::optional<StoredType> parse_stored(const std::string& name) {
  for (const TypeRow& row : kTypes)
    if (name == row.name) return row.type;
  return {};
}

StoredType stored_of_dtype(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return StoredType::f64;
    case DType::f32:
      return StoredType::f32;
    case DType::i64:
      return StoredType::i64;
    default:
      return StoredType::i32;
  }
}

void widen(StoredType type, const unsigned char* from, const Tensor& to) {
  if (to.numel() == 0) return;
  switch (type) {
    case StoredType::f16:
      return widen_each<uint16_t, float>(from, to, half_to_float);
    case StoredType::bf16:
      return widen_each<uint16_t, float>(from, to, bfloat_to_float);
    case StoredType::i16:
      return widen_each<int16_t, int32_t>(from, to, [](int16_t v) { return v; });
    case StoredType::i8:
      return widen_each<int8_t, int32_t>(from, to, [](int8_t v) { return v; });
    case StoredType::u8:
      return widen_each<uint8_t, int32_t>(from, to, [](uint8_t v) { return v; });
    case StoredType::boolean:
      return widen_each<uint8_t, int32_t>(from, to, [](uint8_t v) { return v != 0; });
    default:
      break;
  }
  auto* out = static_cast<unsigned char*>(to.raw());
  parallel_for(static_cast<int64_t>(to.bytes()), kGrain * 8, [&](int64_t begin, int64_t end) {
    std::memcpy(out + begin, from + begin, static_cast<size_t>(end - begin));
  });
}

std::string narrow(StoredType type, const Tensor& from, const std::string& who) {
  const DType dtype = dtype_of_stored(type);
  CBWC_CHECK(is_float(dtype) == is_float(from.dtype()), who, ": ", dtype_name(from.dtype()),
             " cannot be written as ", stored_name(type));
  if (is_float(dtype)) check_range(type, from, who);
  switch (type) {
    case StoredType::f16:
      return narrow_to_16(from, 5);
    case StoredType::bf16:
      return narrow_to_16(from, 8);
    case StoredType::i64:
      return narrow_integers<int64_t>(from, who);
    case StoredType::i32:
      return narrow_integers<int32_t>(from, who);
    case StoredType::i16:
      return narrow_integers<int16_t>(from, who);
    case StoredType::i8:
      return narrow_integers<int8_t>(from, who);
    case StoredType::u8:
      return narrow_integers<uint8_t>(from, who);
    case StoredType::boolean:
      return narrow_integers<bool>(from, who);
    default:
      break;
  }
  const Tensor same = from.to(dtype);
  return std::string(static_cast<const char*>(same.raw()), same.bytes());
}

Tensor rounded(StoredType type, const Tensor& values, const std::string& who) {
  if (values.dtype() == dtype_of_stored(type) && type == stored_of_dtype(values.dtype()))
    return values;
  const Tensor whole = values.contiguous(),
               out = Tensor::empty(values.shape(), dtype_of_stored(type));
  const std::string bytes = narrow(type, whole, who);
  widen(type, reinterpret_cast<const unsigned char*>(bytes.data()), out);
  return out.to(values.dtype());
}

}  // namespace cbwc
