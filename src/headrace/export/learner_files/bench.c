/* What a step costs here, and what the agent takes: `make bench`. */
#include "agent.h"

#include <stdio.h>
#include <time.h>

#ifndef SECONDS
#define SECONDS 2
#endif

int main(void) {
    static float frame[AGENT_FRAME];
    hr_learner *learner = agent_start(agent_state);
    if (!learner) return fprintf(stderr, "bench: state.bin is no state of this agent, or a damaged one\n"), 1;
    uint32_t noise = 1;
    long steps = 0;
    const clock_t start = clock();
    clock_t now = start;
    for (; now - start < SECONDS * CLOCKS_PER_SEC; now = clock(), steps++) {
        for (int i = 0; i < AGENT_FRAME; i++) {
            noise = noise * 1664525 + 1013904223;
            frame[i] = (float)(noise >> 31);
        }
        hr_learn(learner, frame, frame, 0, 0);
    }
    printf("state    %10d bytes, read-only\n", AGENT_STATE);
    printf("memory   %10d bytes\n", AGENT_MEMORY);
    printf("a step   %10.1f microseconds, the mean of %ld\n",
           1e6 * (double)(now - start) / CLOCKS_PER_SEC / (double)steps, steps);
    return 0;
}
