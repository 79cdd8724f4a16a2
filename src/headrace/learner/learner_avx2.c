/* The learner for x86-64 with AVX2. */
#if defined(__x86_64__)
#define HR_VARIANT avx2
#define LANES 8
#include <math.h>
#include <string.h>
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx2,fma")
#endif
#include "learner.c"
#ifdef __clang__
#pragma clang attribute pop
#endif
#endif
