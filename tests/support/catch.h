// Catch2, version 2 (Debian bookworm) or 3.
#pragma once
#if CBWC_CATCH2_MAJOR == 3
#include <catch2/catch_all.hpp>
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
#else
#include <catch2/catch.hpp>
inline auto ContainsSubstring(const std::string& part) { return Catch::Matchers::Contains(part); }
using Catch::Matchers::StartsWith;
#endif
