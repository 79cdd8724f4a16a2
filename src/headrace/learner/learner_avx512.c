/* The learner for x86-64 with AVX-512. */
#if defined(__x86_64__)
#define HR_VARIANT avx512
#define LANES 16
#include <math.h>
#include <string.h>
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,fma"))), apply_to = function)
#else
#pragma GCC target("avx512f,avx512vl,avx512bw,avx512dq,fma,prefer-vector-width=512")
#endif
#include "learner.c"
#ifdef __clang__
#pragma clang attribute pop
#endif
#endif
