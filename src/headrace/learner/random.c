/* The random numbers of `random.h` as functions that other languages can call. */
#include "random.h"

void hr_random_fold_in(const uint32_t key[2], uint32_t data, uint32_t out[2]) {
    hr_threefry((hr_key){key[0], key[1]}, 0, data, out);
}

void hr_random_uniform(const uint32_t key[2], float *out, size_t n) {
    hr_uniform((hr_key){key[0], key[1]}, out, n);
}
