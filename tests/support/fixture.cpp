#include "tests/support/fixture.h"

#include <hdf5.h>

#include "core/check.h"

namespace cbwc::testing {
namespace {

struct Handle {  // closes what it holds
  hid_t id;
  herr_t (*close)(hid_t);
  ~Handle() {
    if (id >= 0) close(id);
  }
};

}  // namespace

Tensor read_fixture(const std::string& file, const std::string& name) {
  const std::string path = std::string(CBWC_SOURCE_DIR) + "/tests/fixtures/" + file;
  const Handle in{H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose};
  CBWC_CHECK(in.id >= 0, path, ": cannot be opened");
  const Handle set{H5Dopen2(in.id, name.c_str(), H5P_DEFAULT), H5Dclose};
  CBWC_CHECK(set.id >= 0, path, ": no dataset ", name);
  const Handle space{H5Dget_space(set.id), H5Sclose};
  std::vector<hsize_t> extents(static_cast<size_t>(H5Sget_simple_extent_ndims(space.id)));
  H5Sget_simple_extent_dims(space.id, extents.data(), nullptr);
  Tensor out = Tensor::empty(Shape(extents.begin(), extents.end()), DType::f64);
  const herr_t rc =
      H5Dread(set.id, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, out.data<double>());
  CBWC_CHECK(rc >= 0, path, ": ", name, " cannot be read");
  return out;
}

}  // namespace cbwc::testing
