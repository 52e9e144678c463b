// Errors that name the file in which they were found.
#pragma once
#include <new>
#include <stdexcept>
#include <string>

#include "core/check.h"
#include "data/json.h"

namespace cbwc {

// step(), whose Error becomes one of `file` where it does not say so itself; so does metadata of
// another shape, and a size that no memory holds.
template <class Step>
auto in_file(const std::string& file, const Step& step) {
  try {
    return step();
  } catch (const Error& error) {
    const std::string what = error.what();
    throw Error(what.starts_with(file) ? what : file + ": " + what);
  } catch (const nlohmann::json::exception& error) {
    detail::fail(file, ": its metadata are damaged: ", error.what());
  } catch (const std::length_error&) {
    detail::fail(file, ": holds more than memory can take");
  } catch (const std::bad_alloc&) {
    detail::fail(file, ": holds more than memory can take");
  }
}

}  // namespace cbwc
