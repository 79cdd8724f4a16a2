/* A fuzzer on whatever comes from outside: descriptions, saved states, observations, rewards and flags. For libFuzzer:
 *
 *     make fuzz SECONDS=600
 *
 * An input is a description, then commands, a byte each and what follows it; what an input lacks is zero. The build has
 * AddressSanitizer, UndefinedBehaviorSanitizer and fences between arrays (HR_FENCED).
 */
#include "learner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST_BYTES (1 << 20) /* of a learner: larger ones are only slower */
#define MOST_COMMANDS 24

typedef struct {
    const uint8_t *data;
    size_t size;
} input;

static void take(input *in, void *place, size_t size) {
    const size_t some = size < in->size ? size : in->size;
    memset(place, 0, size);
    if (some) memcpy(place, in->data, some);
    in->data += some, in->size -= some;
}

static int next(input *in) {
    uint8_t byte;
    take(in, &byte, 1);
    return byte;
}

/* Numbers as observations have them, small and whole; or any bits at all. */
static void take_frame(input *in, float *frame, int n) {
    if (next(in) & 1) {
        take(in, frame, (size_t)n * sizeof *frame);
        return;
    }
    for (int i = 0; i < n; i++) frame[i] = (float)next(in) / 16;
}

/* Some bytes of one saved array become others; the state is refused, or one to go on from. */
static int spoil(input *in, hr_learner *learner) {
    hr_array array;
    hr_settle(learner);
    if (!hr_saved(learner, next(in), &array)) return 1;
    size_t size = array.type == HR_BOOL ? 1 : 4;
    for (int i = 0; i < array.dimensions; i++) size *= (size_t)array.shape[i];
    const size_t at = (size_t)next(in) * 4 % size, many = size - at < 4 ? size - at : 4;
    take(in, (char *)learner + array.offset + at, many);
    return hr_resume(learner) == HR_FINE;
}

static void obey(input *in, hr_learner *learner, int n, int actions, float *successor, float *frame) {
    float reward, q[4096];
    hr_begin(learner, frame);
    for (int i = 0; i < MOST_COMMANDS && in->size; i++) {
        const int command = next(in);
        if (command % 8 == 0 && !spoil(in, learner)) return;
        if (command % 8 == 1) take_frame(in, frame, n), hr_restart(learner, frame);
        if (command % 8 == 2) take_frame(in, frame, n), hr_evaluate(learner, frame, q, 0, 0);
        if (command % 8 < 3) continue;
        take_frame(in, successor, n), take_frame(in, frame, n);
        take(in, &reward, command & 64 ? sizeof reward : 0);
        if (!(command & 64)) reward = (float)(int8_t)next(in);
        hr_learn(learner, successor, frame, reward, command >> 3 & 7);
        if (hr_action(learner) < 0) abort();
        for (int a = 0; hr_point(learner) && a < actions; a++)
            if (!isfinite(hr_point(learner)[a])) abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    input in = {data, size};
    hr_config config;
    take(&in, &config, sizeof config);
    const size_t bytes = hr_size(&config);
    if (!bytes != !!hr_problem(&config)) abort();
    if (!bytes || bytes > MOST_BYTES) return 0;
    const int n = config.height * config.width * config.channels;
    float *successor = calloc((size_t)n, sizeof *successor);
    float *frame = calloc((size_t)(n * config.frames), sizeof *frame); /* evaluated, it is a whole observation */
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    hr_learner *learner = hr_init(&config, memory, (uint64_t)next(&in));
    obey(&in, learner, n, config.actions, successor, frame);
    free(memory), free(successor), free(frame);
    return 0;
}
