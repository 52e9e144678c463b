// Tensor: a typed, strided view on refcounted storage. It computes nothing and knows no gradients.
// Copying a Tensor shares the storage; clone() copies the elements. Strides count elements.
#pragma once
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "core/dtype.h"

namespace cbwc {

using Shape = std::vector<int64_t>;
int64_t numel(const Shape& shape);                        // product, checked against overflow
std::string to_string(const Shape& shape);                // "(4, 256, 768)"
int normalize_axis(int axis, int rank, const char* who);  // -1 -> rank - 1; Error if outside

struct Storage {
  Storage(size_t bytes, Device device);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;
  void* const data;
  const size_t bytes;
  const Device device;
};

class Tensor {
 public:
  Tensor() = default;  // undefined: defined() is false, everything else is an error
  static Tensor empty(Shape shape, DType dtype, Device device = Device::cpu);
  static Tensor zeros(Shape shape, DType dtype, Device device = Device::cpu);
  static Tensor full(Shape shape, double value, DType dtype, Device device = Device::cpu);
  static Tensor empty_like(const Tensor& other);  // contiguous, same shape, dtype and device
  static Tensor zeros_like(const Tensor& other);
  template <class T>
  static Tensor from(const std::vector<T>& values, Shape shape);

  bool defined() const { return storage_ != nullptr; }
  const Shape& shape() const { return shape_; }
  const Shape& strides() const { return strides_; }
  int rank() const { return static_cast<int>(shape_.size()); }
  int64_t size(int axis) const;  // negative axes count from the end
  int64_t numel() const { return numel_; }
  size_t bytes() const { return static_cast<size_t>(numel_) * dtype_size(dtype_); }
  DType dtype() const { return dtype_; }
  Device device() const;
  bool is_contiguous() const;
  bool unique() const { return storage_.use_count() == 1; }  // nobody else holds the storage
  bool shares_storage(const Tensor& other) const { return storage_ == other.storage_; }

  // Pointer to the first element; Error when T is not the dtype. Host code may read it on the CPU
  // only.
  template <class T>
  T* data() const;
  void* raw() const;

  // Views: no element is copied (reshape copies where the strides leave no other way).
  Tensor reshape(Shape shape) const;  // one extent may be -1
  Tensor permute(const std::vector<int>& axes) const;
  Tensor transpose(int a, int b) const;
  Tensor slice(int axis, int64_t start, int64_t end) const;  // [start, end)
  Tensor expand(const Shape& shape) const;                   // broadcast, stride 0

  Tensor contiguous() const;  // itself when contiguous
  Tensor clone() const;       // a contiguous copy
  Tensor to(DType dtype) const;
  Tensor to(Device device) const;
  void copy_from(const Tensor& source);  // same shape; strides and dtypes may differ
  void fill(double value);
  double item() const;  // the only element, as double
  template <class T>
  std::vector<T> to_vector() const;  // row-major; dtype must be T

 private:
  std::shared_ptr<Storage> storage_;
  Shape shape_, strides_;
  int64_t offset_ = 0, numel_ = 0;
  DType dtype_ = DType::f32;
};

}  // namespace cbwc
