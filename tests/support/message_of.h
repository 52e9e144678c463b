#pragma once
#include <string>

#include "core/check.h"

namespace cbwc::testing {

// The message of the error that f throws; "" when it throws none.
template <class E = Error, class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const E& error) {
    return error.what();
  }
  return "";
}

}  // namespace cbwc::testing
