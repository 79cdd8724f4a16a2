/* An agent between its memory and a saved state.
 *
 * A state is the learner's arrays one after the other, behind five words: magic, format, run, bytes that follow, checksum.
 */
#include "agent.h"

#include <string.h>

#define MAGIC 0x74737268 /* reads otherwise in another byte order */
#define WORDS 5
#define HEAD (WORDS * sizeof(uint32_t))

static _Alignas(64) unsigned char memory[AGENT_MEMORY];
static const hr_config config = AGENT_CONFIG;

static size_t bytes_of(const hr_array *array) {
    size_t bytes = array->type == HR_BOOL ? 1 : 4;
    for (int i = 0; i < array->dimensions; i++) bytes *= (size_t)array->shape[i];
    return bytes;
}

/* Two sums over the words of the state, the last one filled up with zeros. */
static uint32_t checksum(const unsigned char *data, size_t bytes) {
    uint32_t a = 0, b = 0;
    for (size_t i = 0; i < bytes; i += 4) {
        uint32_t word = 0;
        memcpy(&word, data + i, bytes - i < 4 ? bytes - i : 4);
        a += word, b += a;
    }
    return a ^ b;
}

/* What a whole state of this agent begins with. */
static void head_of(const unsigned char *state, uint32_t head[WORDS]) {
    const size_t bytes = AGENT_STATE - HEAD;
    head[0] = MAGIC, head[1] = HR_FORMAT, head[2] = AGENT_RUN, head[3] = (uint32_t)bytes;
    head[4] = checksum(state + HEAD, bytes);
}

hr_learner *agent_start(const unsigned char state[AGENT_STATE]) {
    uint32_t head[WORDS];
    head_of(state, head);
    if (memcmp(state, head, HEAD) || hr_size(&config) > sizeof memory) return 0;
    hr_learner *learner = hr_init(&config, memory, AGENT_SEED);
    hr_array array;
    const unsigned char *place = state + HEAD;
    for (int i = 0; hr_saved(learner, i, &array); i++) {
        memcpy(memory + array.offset, place, bytes_of(&array));
        place += bytes_of(&array);
    }
    return hr_resume(learner) ? 0 : learner;
}

void agent_save(hr_learner *learner, unsigned char state[AGENT_STATE]) {
    uint32_t head[WORDS];
    hr_array array;
    unsigned char *place = state + HEAD;
    hr_settle(learner);
    for (int i = 0; hr_saved(learner, i, &array); i++) {
        memcpy(place, memory + array.offset, bytes_of(&array));
        place += bytes_of(&array);
    }
    head_of(state, head);
    memcpy(state, head, HEAD);
}
