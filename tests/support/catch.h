// Catch2, version 2 (Debian bookworm) or 3.
#pragma once
#if CBWC_CATCH2_MAJOR == 3
#include <catch2/catch_all.hpp>
using Catch::Approx;
#else
#include <catch2/catch.hpp>
#endif
