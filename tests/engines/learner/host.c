/* A learner behind a pipe, so that one that was compiled for another machine can be compared here, under an emulator.
 *
 * Commands on standard input, a letter and what it needs, numbers as they lie in memory (little-endian everywhere):
 * i(nit) description and seed; b(egin) and r(estart) frame; l(earn) successor, frame, reward, flags; s(ave); p(ut back)
 * arrays. `i` answers with the number of saved arrays and their descriptions, `l` with the outcome, `s` with the arrays.
 */
#include "learner.h"

#include <stdio.h>
#include <stdlib.h>

static void take(void *place, size_t size) {
    if (size && fread(place, size, 1, stdin) != 1) exit(1);
}
static void give(const void *place, size_t size) { fwrite(place, size, 1, stdout); }
static float *floats(int n) { return calloc((size_t)n, sizeof(float)); }

static size_t bytes_of(const hr_array *array) {
    size_t size = array->type == HR_BOOL ? 1 : 4;
    for (int i = 0; i < array->dimensions; i++) size *= (size_t)array->shape[i];
    return size;
}

static hr_learner *init(hr_config *config) {
    uint64_t seed;
    take(config, sizeof *config), take(&seed, sizeof seed);
    const size_t size = (hr_size(config) + 63) / 64 * 64;
    if (!size) {
        fprintf(stderr, "%s\n", hr_problem(config));
        exit(2);
    }
    hr_learner *learner = hr_init(config, aligned_alloc(64, size), seed);
    hr_array array;
    int32_t count = 0;
    while (hr_saved(learner, count, &array)) count++;
    give(&count, sizeof count);
    for (int32_t i = 0; hr_saved(learner, i, &array); i++) give(&array, sizeof array);
    return learner;
}

static void each_array(hr_learner *learner, int put_back) {
    hr_array array;
    for (int32_t i = 0; hr_saved(learner, i, &array); i++) {
        char *place = (char *)learner + array.offset;
        if (put_back) take(place, bytes_of(&array));
        else give(place, bytes_of(&array));
    }
}

static int32_t learn(hr_learner *learner, float *successor, float *frame, size_t size) {
    float reward;
    int32_t flags;
    take(successor, size), take(frame, size), take(&reward, sizeof reward), take(&flags, sizeof flags);
    return hr_learn(learner, successor, frame, reward, flags);
}

int main(void) {
    hr_config config;
    if (getchar() != 'i') return 1;
    hr_learner *learner = init(&config);
    const int n = config.height * config.width * config.channels;
    float *successor = floats(n), *frame = floats(n);
    for (int command; fflush(stdout), (command = getchar()) != EOF;) {
        switch (command) {
            case 'b': take(frame, (size_t)n * sizeof *frame), hr_begin(learner, frame); break;
            case 'r': take(frame, (size_t)n * sizeof *frame), hr_restart(learner, frame); break;
            case 's': hr_settle(learner), each_array(learner, 0); break;
            case 'p':
                each_array(learner, 1);
                if (hr_resume(learner)) return 3;
                break;
            case 'l': {
                const int32_t outcome = learn(learner, successor, frame, (size_t)n * sizeof *frame);
                give(&outcome, sizeof outcome);
                break;
            }
            default: return 1;
        }
    }
    free(successor), free(frame), free(learner);
    return 0;
}
