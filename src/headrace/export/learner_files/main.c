/* An agent that goes on learning where its run in headrace stopped.
 *
 *   ./agent          starts from the state that was built in
 *   ./agent FILE     starts from FILE where there is one, and keeps its state there when the input ends
 *
 * It writes the number of the action to take, or its AGENT_ACTIONS numbers where AGENT_BOX is 1 (to be clipped to [-1, 1]
 * and scaled to the bounds of what they stand for), reads what that led to, learns from it, and so on. Here this goes over
 * standard input and output; on a device `act` and `sense` are what you write anew.
 *
 * An answer is numbers with space between them: flags, reward, and the AGENT_FRAME numbers of the observation that the
 * action led to, as the environment shows it: they are standardised and stacked inside. The flags are the sum of
 *
 *   1 HR_TERMINATED   there is no future to expect from here
 *   2 HR_TRUNCATED    the episode was cut short
 *   4 HR_LAST         the episode is over; AGENT_FRAME more numbers follow, the first observation of the next one
 *
 * or BEGIN alone: forget the action, an episode begins with this observation. So a device starts after its power was
 * off; without it the agent takes up the episode that it was saved in.
 */
#include "agent.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define BEGIN 8

typedef struct {
    int flags;
    float reward;
    float successor[AGENT_FRAME]; /* what the action led to */
    float first[AGENT_FRAME];     /* the next episode's first observation, where this one is over */
} answer;

enum { ENDED, HEARD, NONSENSE };

static void act(const hr_learner *learner) {
    if (!AGENT_BOX) printf("%d\n", hr_action(learner));
    for (int i = 0; AGENT_BOX && i < AGENT_ACTIONS; i++)
        printf("%.9g%c", hr_point(learner)[i], i + 1 < AGENT_ACTIONS ? ' ' : '\n');
    fflush(stdout);
}

static int read_numbers(float *numbers, int n) {
    for (int i = 0; i < n; i++)
        if (scanf("%f", &numbers[i]) != 1 || !isfinite(numbers[i])) return NONSENSE;
    return HEARD;
}

static int sense(answer *a) {
    const int found = scanf("%d", &a->flags);
    if (found == EOF) return ENDED;
    if (found != 1 || read_numbers(&a->reward, 1) != HEARD) return NONSENSE;
    if (read_numbers(a->successor, AGENT_FRAME) != HEARD) return NONSENSE;
    return a->flags & HR_LAST ? read_numbers(a->first, AGENT_FRAME) : HEARD;
}

/* The learner as a file has it; where there is no such file, as it was exported; 0 where the file is no state of it. */
static hr_learner *start(const char *path) {
    FILE *file = path ? fopen(path, "rb") : 0;
    if (!file) return agent_start(agent_state);
    unsigned char *state = malloc(AGENT_STATE + 1);
    const int whole = state && fread(state, 1, AGENT_STATE + 1, file) == AGENT_STATE;
    hr_learner *learner = whole ? agent_start(state) : 0;
    fclose(file);
    free(state);
    return learner;
}

/* Writes the state beside its place and moves it there: a power cut leaves the old one or the new one. */
static int keep(hr_learner *learner, const char *path) {
    char beside[4096];
    unsigned char *state = malloc(AGENT_STATE);
    if (!state || snprintf(beside, sizeof beside, "%s.tmp", path) >= (int)sizeof beside) return 0;
    agent_save(learner, state);
    FILE *file = fopen(beside, "wb");
    const int written = file && fwrite(state, 1, AGENT_STATE, file) == AGENT_STATE;
    const int closed = file && fclose(file) == 0;
    free(state);
    return written && closed && rename(beside, path) == 0;
}

int main(int argc, char **argv) {
    static answer now;
    const char *path = argc > 1 ? argv[1] : 0;
    hr_learner *learner = start(path);
    if (!learner) {
        fprintf(stderr, "agent: %s is no state of this agent, or a damaged one\n", path ? path : "state.bin");
        return 1;
    }
    int heard;
    for (act(learner); (heard = sense(&now)) == HEARD; act(learner)) {
        if (now.flags & BEGIN)
            hr_restart(learner, now.successor);
        else
            hr_learn(learner, now.successor, now.first, now.reward, now.flags);
    }
    if (heard == NONSENSE) fprintf(stderr, "agent: an answer is not made of finite numbers, or too short\n");
    if (path && !keep(learner, path)) {
        fprintf(stderr, "agent: cannot write %s\n", path);
        return 1;
    }
    return heard == NONSENSE;
}
