/* Vectors of the widest kind that the instruction set has, in the compiler's own portable notation. */
#ifndef HR_VECTORS_H
#define HR_VECTORS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#ifndef LANES
#if defined(__AVX512F__)
#define LANES 16
#elif defined(__AVX2__)
#define LANES 8
#else
#define LANES 4
#endif
#endif

#if LANES == 16
#define MOST_ROWS 6 /* of results kept in registers, times MOST_VECTORS */
#define MOST_VECTORS 4
#elif LANES == 8
#define MOST_ROWS 6
#define MOST_VECTORS 2
#else
#define MOST_ROWS 4
#define MOST_VECTORS 2
#endif

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")

typedef float vec __attribute__((vector_size(4 * LANES)));
typedef float unaligned_vec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t mask __attribute__((vector_size(4 * LANES)));

INLINE vec load(const float *p) { return *(const unaligned_vec *)p; }
INLINE void store(float *p, vec x) { *(unaligned_vec *)p = x; }
INLINE vec all(float x) { return x - (vec){0}; }
INLINE vec magnitude(vec x) { return (vec)((mask)x & 0x7fffffff); }
INLINE vec root(vec x) {
    float lanes[LANES];
    memcpy(lanes, &x, sizeof x);
    UNROLL
    for (int i = 0; i < LANES; i++) lanes[i] = sqrtf(lanes[i]);
    return *(const unaligned_vec *)lanes;
}

/* The first n of a vector's numbers, zeros behind them; and back. */
INLINE vec load_some(const float *p, int n) {
    float lanes[LANES] = {0};
    for (int i = 0; i < LANES && i < n; i++) lanes[i] = p[i];
    return load(lanes);
}
INLINE void store_some(float *p, vec x, int n) {
    float lanes[LANES];
    store(lanes, x);
    for (int i = 0; i < LANES && i < n; i++) p[i] = lanes[i];
}

INLINE float total(vec x) {
    float lanes[LANES];
    memcpy(lanes, &x, sizeof x);
    UNROLL
    for (int half = LANES / 2; half; half /= 2)
        for (int i = 0; i < half; i++) lanes[i] += lanes[i + half];
    return lanes[0];
}

#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define HR_SHUFFLES 1
#endif
#endif

#ifdef HR_SHUFFLES
/* Lane l of the result is the sum of x_l: neighbours fold into each other until one vector is left. */
#if LANES == 16
#define FOLD8(a, b) (__builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 24, 25, 26, 27, 28, 29, 30, 31) + \
                     __builtin_shufflevector(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23))
#define FOLD4(a, b) (__builtin_shufflevector(a, b, 0, 1, 2, 3, 20, 21, 22, 23, 8, 9, 10, 11, 28, 29, 30, 31) + \
                     __builtin_shufflevector(a, b, 4, 5, 6, 7, 16, 17, 18, 19, 12, 13, 14, 15, 24, 25, 26, 27))
#define FOLD2(a, b) (__builtin_shufflevector(a, b, 0, 1, 18, 19, 4, 5, 22, 23, 8, 9, 26, 27, 12, 13, 30, 31) + \
                     __builtin_shufflevector(a, b, 2, 3, 16, 17, 6, 7, 20, 21, 10, 11, 24, 25, 14, 15, 28, 29))
#define FOLD1(a, b) (__builtin_shufflevector(a, b, 0, 17, 2, 19, 4, 21, 6, 23, 8, 25, 10, 27, 12, 29, 14, 31) + \
                     __builtin_shufflevector(a, b, 1, 16, 3, 18, 5, 20, 7, 22, 9, 24, 11, 26, 13, 28, 15, 30))
#elif LANES == 8
#define FOLD4(a, b) (__builtin_shufflevector(a, b, 0, 1, 2, 3, 12, 13, 14, 15) + \
                     __builtin_shufflevector(a, b, 4, 5, 6, 7, 8, 9, 10, 11))
#define FOLD2(a, b) (__builtin_shufflevector(a, b, 0, 1, 10, 11, 4, 5, 14, 15) + \
                     __builtin_shufflevector(a, b, 2, 3, 8, 9, 6, 7, 12, 13))
#define FOLD1(a, b) (__builtin_shufflevector(a, b, 0, 9, 2, 11, 4, 13, 6, 15) + \
                     __builtin_shufflevector(a, b, 1, 8, 3, 10, 5, 12, 7, 14))
#else
#define FOLD2(a, b) (__builtin_shufflevector(a, b, 0, 1, 6, 7) + __builtin_shufflevector(a, b, 2, 3, 4, 5))
#define FOLD1(a, b) (__builtin_shufflevector(a, b, 0, 5, 2, 7) + __builtin_shufflevector(a, b, 1, 4, 3, 6))
#endif

INLINE vec totals(vec x[LANES]) {
#if LANES == 16
    UNROLL
    for (int i = 0; i < 8; i++) x[i] = FOLD8(x[i], x[i + 8]);
#endif
#if LANES >= 8
    UNROLL
    for (int i = 0; i < 4; i++) x[i] = FOLD4(x[i], x[i + 4]);
#endif
    UNROLL
    for (int i = 0; i < 2; i++) x[i] = FOLD2(x[i], x[i + 2]);
    return FOLD1(x[0], x[1]);
}

/* Two vectors' numbers in turn: those of their first halves, and of their second. */
#if LANES == 16
#define LOW(a, b) __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define HIGH(a, b) __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#elif LANES == 8
#define LOW(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define HIGH(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#else
#define LOW(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define HIGH(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#endif

/* Rows become columns. */
INLINE void transpose(vec x[LANES]) {
    UNROLL
    for (int stage = 1; stage < LANES; stage *= 2) {
        vec y[LANES];
        UNROLL
        for (int i = 0; i < LANES / 2; i++) {
            y[2 * i] = LOW(x[i], x[i + LANES / 2]);
            y[2 * i + 1] = HIGH(x[i], x[i + LANES / 2]);
        }
        UNROLL
        for (int i = 0; i < LANES; i++) x[i] = y[i];
    }
}
#else
INLINE vec totals(vec x[LANES]) {
    vec sums = {0};
    for (int i = 0; i < LANES; i++) sums[i] = total(x[i]);
    return sums;
}

INLINE void transpose(vec x[LANES]) {
    for (int i = 0; i < LANES; i++)
        for (int j = 0; j < i; j++) {
            const float other = x[i][j];
            x[i][j] = x[j][i], x[j][i] = other;
        }
}
#endif

static float dot(const float *a, const float *b, int n) {
    vec sum = {0};
    int i = 0;
    for (; i + LANES <= n; i += LANES) sum += load(a + i) * load(b + i);
    if (i < n) sum += load_some(a + i, n - i) * load_some(b + i, n - i);
    return total(sum);
}

static void fill(float *x, float value, size_t n) {
    for (size_t i = 0; i < n; i++) x[i] = value;
}

static void copy(float *to, const float *from, size_t n) { memcpy(to, from, n * sizeof(float)); }

#endif
