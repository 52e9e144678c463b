#include "core/tensor.h"

#include <algorithm>

#include "core/allocator.h"
#include "core/device_services.h"
#include "core/kernels/copy.h"

namespace cbwc {
namespace {

Shape row_major(const Shape& shape) {
  Shape strides(shape.size());
  int64_t step = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = step;
    step *= std::max<int64_t>(shape[i], 1);
  }
  return strides;
}

}  // namespace

int64_t numel(const Shape& shape) {
  int64_t n = 1;
  for (int64_t extent : shape) {
    CBWC_CHECK(extent >= 0, "shape ", to_string(shape), ": an extent is negative");
    CBWC_CHECK(!__builtin_mul_overflow(n, extent, &n), "shape ", to_string(shape),
               ": more elements than 64 bits count");
  }
  return n;
}

std::string to_string(const Shape& shape) {
  std::string text = "(";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + ")";
}

int normalize_axis(int axis, int rank, const char* who) {
  CBWC_CHECK(axis >= -rank && axis < rank, who, ": axis ", axis, " is outside a tensor of rank ",
             rank);
  return axis < 0 ? axis + rank : axis;
}

Storage::Storage(size_t n, Device where) : data(allocate(n, where)), bytes(n), device(where) {}
Storage::~Storage() { release(data, bytes, device); }

Tensor Tensor::empty(Shape shape, DType dtype, Device device) {
  Tensor t;
  t.numel_ = cbwc::numel(shape);
  t.strides_ = row_major(shape);
  t.shape_ = std::move(shape);
  t.dtype_ = dtype;
  t.storage_ = std::make_shared<Storage>(static_cast<size_t>(t.numel_) * dtype_size(dtype), device);
  return t;
}

Tensor Tensor::zeros(Shape shape, DType dtype, Device device) {
  return full(std::move(shape), 0.0, dtype, device);
}

Tensor Tensor::full(Shape shape, double value, DType dtype, Device device) {
  Tensor t = empty(std::move(shape), dtype, device);
  t.fill(value);
  return t;
}

Tensor Tensor::empty_like(const Tensor& other) {
  return empty(other.shape_, other.dtype_, other.device());
}
Tensor Tensor::zeros_like(const Tensor& other) {
  return zeros(other.shape_, other.dtype_, other.device());
}

template <class T>
Tensor Tensor::from(const std::vector<T>& values, Shape shape) {
  Tensor t = empty(std::move(shape), dtype_of<T>());
  CBWC_CHECK(t.numel_ == static_cast<int64_t>(values.size()), "Tensor::from: ", values.size(),
             " values for the shape ", to_string(t.shape_));
  std::copy(values.begin(), values.end(), t.data<T>());
  return t;
}

int64_t Tensor::size(int axis) const { return shape_[normalize_axis(axis, rank(), "size")]; }

Device Tensor::device() const {
  CBWC_CHECK(defined(), "an undefined tensor has no device");
  return storage_->device;
}

bool Tensor::is_contiguous() const {
  int64_t step = 1;
  for (int i = rank() - 1; i >= 0; --i) {
    if (shape_[i] != 1 && strides_[i] != step) return numel_ == 0;
    step *= shape_[i];
  }
  return true;
}

template <class T>
T* Tensor::data() const {
  CBWC_CHECK(defined(), "an undefined tensor has no data");
  CBWC_CHECK(dtype_of<T>() == dtype_, "a ", dtype_name(dtype_), " tensor was read as ",
             dtype_name(dtype_of<T>()));
  return static_cast<T*>(storage_->data) + offset_;
}

void* Tensor::raw() const {
  CBWC_CHECK(defined(), "an undefined tensor has no data");
  return static_cast<std::byte*>(storage_->data) +
         static_cast<size_t>(offset_) * dtype_size(dtype_);
}

Tensor Tensor::reshape(Shape shape) const {
  int64_t known = 1;
  int unknown = -1;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == -1 && unknown < 0) {
      unknown = static_cast<int>(i);
    } else {
      known *= shape[i];
    }
  }
  if (unknown >= 0) shape[unknown] = known > 0 ? numel_ / known : 0;
  CBWC_CHECK(cbwc::numel(shape) == numel_, "reshape: ", cbwc::to_string(shape_),
             " has not as many elements as ", cbwc::to_string(shape));
  Tensor t = contiguous();
  t.strides_ = row_major(shape);
  t.shape_ = std::move(shape);
  return t;
}

Tensor Tensor::permute(const std::vector<int>& axes) const {
  CBWC_CHECK(static_cast<int>(axes.size()) == rank(), "permute: ", axes.size(),
             " axes for a tensor of rank ", rank());
  Tensor t = *this;
  std::vector<bool> seen(axes.size());
  for (size_t i = 0; i < axes.size(); ++i) {
    const int from = normalize_axis(axes[i], rank(), "permute");
    CBWC_CHECK(!seen[from], "permute: axis ", from, " is named twice");
    seen[from] = true;
    t.shape_[i] = shape_[from];
    t.strides_[i] = strides_[from];
  }
  return t;
}

Tensor Tensor::transpose(int a, int b) const {
  Tensor t = *this;
  a = normalize_axis(a, rank(), "transpose");
  b = normalize_axis(b, rank(), "transpose");
  std::swap(t.shape_[a], t.shape_[b]);
  std::swap(t.strides_[a], t.strides_[b]);
  return t;
}

Tensor Tensor::slice(int axis, int64_t start, int64_t end) const {
  axis = normalize_axis(axis, rank(), "slice");
  CBWC_CHECK(0 <= start && start <= end && end <= shape_[axis], "slice: [", start, ", ", end,
             ") is outside axis ", axis, " of ", cbwc::to_string(shape_));
  Tensor t = *this;
  t.shape_[axis] = end - start;
  t.offset_ += start * strides_[axis];
  t.numel_ = cbwc::numel(t.shape_);
  return t;
}

Tensor Tensor::expand(const Shape& shape) const {
  const int extra = static_cast<int>(shape.size()) - rank();
  CBWC_CHECK(extra >= 0, "expand: ", cbwc::to_string(shape_), " to ", cbwc::to_string(shape));
  Tensor t = *this;
  t.shape_ = shape;
  t.strides_.assign(shape.size(), 0);
  for (int i = 0; i < rank(); ++i) {
    if (shape_[i] == shape[i + extra]) {
      t.strides_[i + extra] = strides_[i];
    } else {
      CBWC_CHECK(shape_[i] == 1, "expand: ", cbwc::to_string(shape_), " does not broadcast to ",
                 cbwc::to_string(shape));
    }
  }
  t.numel_ = cbwc::numel(shape);
  return t;
}

Tensor Tensor::contiguous() const { return is_contiguous() ? *this : clone(); }

Tensor Tensor::clone() const {
  Tensor t = empty(shape_, dtype_, device());
  t.copy_from(*this);
  return t;
}

Tensor Tensor::to(DType dtype) const {
  if (dtype == dtype_) return *this;
  Tensor t = empty(shape_, dtype, device());
  t.copy_from(*this);
  return t;
}

Tensor Tensor::to(Device where) const {
  if (where == device()) return *this;
  Tensor t = empty(shape_, dtype_, where);
  t.copy_from(*this);
  return t;
}

void Tensor::copy_from(const Tensor& source) {
  CBWC_CHECK(shape_ == source.shape_, "copy: ", cbwc::to_string(source.shape_), " into ",
             cbwc::to_string(shape_));
  if (device() == Device::cpu && source.device() == Device::cpu) return cpu::copy(*this, source);
  CBWC_CHECK(is_contiguous() && source.is_contiguous() && dtype_ == source.dtype_,
             "copy: between devices both sides must be contiguous and of one type");
  const auto kind = device() == Device::cpu          ? cuda::CopyKind::to_host
                    : source.device() == Device::cpu ? cuda::CopyKind::to_device
                                                     : cuda::CopyKind::on_device;
  cuda::copy(raw(), source.raw(), bytes(), kind);
}

void Tensor::fill(double value) {
  if (device() == Device::cuda) {
    if (value == 0.0 && is_contiguous()) return cuda::fill_zero(raw(), bytes());
    Tensor host = full(shape_, value, dtype_);
    return copy_from(host);
  }
  Tensor one = empty({1}, dtype_);
  dispatch_all(dtype_, [&](auto zero) {
    using T = decltype(zero);
    *one.data<T>() = static_cast<T>(value);
  });
  cpu::copy(*this, one.reshape({}).expand(shape_));
}

double Tensor::item() const {
  CBWC_CHECK(numel_ == 1, "item: the tensor has the shape ", cbwc::to_string(shape_));
  const Tensor host = to(Device::cpu);
  return dispatch_all(dtype_, [&](auto zero) {
    using T = decltype(zero);
    return static_cast<double>(*host.data<T>());
  });
}

template <class T>
std::vector<T> Tensor::to_vector() const {
  const Tensor host = contiguous().to(Device::cpu);
  return std::vector<T>(host.data<T>(), host.data<T>() + numel_);
}

#define CBWC_INSTANTIATE(T)                                      \
  template Tensor Tensor::from<T>(const std::vector<T>&, Shape); \
  template T* Tensor::data<T>() const;                           \
  template std::vector<T> Tensor::to_vector<T>() const;
CBWC_INSTANTIATE(float)
CBWC_INSTANTIATE(double)
CBWC_INSTANTIATE(int32_t)
CBWC_INSTANTIATE(int64_t)
#undef CBWC_INSTANTIATE

}  // namespace cbwc
