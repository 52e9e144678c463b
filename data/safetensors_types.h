// Element types of safetensors: conversion from and to ours.
#pragma once
#include "data/safetensors.h"

namespace cbwc {

std::optional<StoredType> parse_stored(const std::string& name);
StoredType stored_of_dtype(DType dtype);
// `from`: the stored bytes, of any alignment; `to`: contiguous, of type dtype_of_stored().
void widen(StoredType type, const unsigned char* from, const Tensor& to);
// All elements of a contiguous tensor as stored bytes. Error naming `who` for a number that the
// type cannot hold: an integer, or a finite one that would become infinite.
std::string narrow(StoredType type, const Tensor& from, const std::string& who);

// What such a file gives back of these values: rounded once, in their own dtype. Error as narrow().
Tensor rounded(StoredType type, const Tensor& values, const std::string& who);

}  // namespace cbwc
