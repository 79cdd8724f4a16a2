/* JAX's counter-based random numbers (threefry2x32, partitionable), so that every engine draws the same. */
#ifndef HR_RANDOM_H
#define HR_RANDOM_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint32_t a, b;
} hr_key;

static inline uint32_t hr_rotated(uint32_t x, int by) { return (x << by) | (x >> (32 - by)); }

/* Twenty rounds over a counter of two words (Salmon et al. 2011). */
static inline void hr_threefry(hr_key key, uint32_t x0, uint32_t x1, uint32_t out[2]) {
    static const int turns[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
    const uint32_t keys[3] = {key.a, key.b, key.a ^ key.b ^ 0x1BD11BDAu};
    x0 += keys[0];
    x1 += keys[1];
    for (uint32_t group = 0; group < 5; group++) {
        for (int i = 0; i < 4; i++) {
            x0 += x1;
            x1 = hr_rotated(x1, turns[group % 2][i]) ^ x0;
        }
        x0 += keys[(group + 1) % 3];
        x1 += keys[(group + 2) % 3] + group + 1;
    }
    out[0] = x0;
    out[1] = x1;
}

/* The key of a seed, as `jax.random.key(seed)` makes it from an integer of 32 bits. */
static inline hr_key hr_key_of(uint64_t seed) { return (hr_key){(uint32_t)(seed >> 32), (uint32_t)seed}; }

/* As `jax.random.fold_in(key, data)`. */
static inline hr_key hr_fold_in(hr_key key, uint32_t data) {
    uint32_t out[2];
    hr_threefry(key, 0, data, out);
    return (hr_key){out[0], out[1]};
}

/* The i-th of the n keys that `jax.random.split(key, n)` gives; in JAX's partitionable scheme n does not matter. */
static inline hr_key hr_split(hr_key key, uint32_t i, uint32_t n) {
    (void)n;
    return hr_fold_in(key, i);
}

/* The i-th word that `jax.random.bits(key, (n,))` gives, for any n > i. */
static inline uint32_t hr_bits(hr_key key, uint32_t i) {
    uint32_t out[2];
    hr_threefry(key, 0, i, out);
    return out[0] ^ out[1];
}

static inline float hr_uniform_at(hr_key key, uint32_t i) { return (float)(hr_bits(key, i) >> 9) * 0x1p-23f; }

/* Uniform numbers in [0, 1) with 23 random bits each, as `jax.random.uniform(key, (n,))` gives them. */
static inline void hr_uniform(hr_key key, float *out, size_t n) {
    for (size_t i = 0; i < n; i++) out[i] = hr_uniform_at(key, (uint32_t)i);
}

#endif
