/* MinAtar's Breakout, learnt from a stream: Stream Q(lambda) and the game in one program, without an operating system's
 * help but to print. What it takes from the learner's library is all that a device needs: `learner.h` and a game. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "games/run.h"

#define ROOM (2 << 20)  /* bytes for the learner */
#define LOG_EVERY 1000  /* steps, at most; an episode takes at least one */
#define MOST_ROWS 20    /* of the curve that is printed */
#define RECENT 100      /* episodes in the return that is printed */
#define BAR 4           /* marks for a return of 1 */

static _Alignas(64) unsigned char memory[ROOM];
static hr_game game;
static hr_episode ended[LOG_EVERY];

/* The agent `strq` of headrace, for a run of so many steps: exploration falls over its first fifth. */
static hr_config agent(int32_t steps) {
    return (hr_config){
        .height = HR_SIDE, .width = HR_SIDE, .channels = hr_breakout.channels, .frames = 1, .actions = hr_breakout.actions,
        .spatial = 1, .layers = 1, .layer = {{3, 3, 1, 1, 16}}, .hidden = 128, .head = HR_LEAKY_NORM,
        .rule = HR_STREAM_Q, .lr = 1, .gamma = 0.99f, .lamda = 0.8f, .kappa = 2,
        .explore_start = 1, .explore_end = 0.01f, .explore_fraction = 0.2f, .steps = (float)steps,
    };
}

/* The mean return of the latest episodes. */
static struct {
    float of[RECENT];
    int32_t count;
} recent;

static void note(float episode_return) { recent.of[recent.count++ % RECENT] = episode_return; }

static double mean_return(void) {
    const int32_t kept = recent.count < RECENT ? recent.count : RECENT;
    double sum = 0;
    for (int32_t i = 0; i < kept; i++) sum += recent.of[i];
    return kept ? sum / kept : 0;
}

static void print_row(int32_t step) {
    const double mean = mean_return();
    printf("%10d %8.2f  ", (int)step, mean);
    for (int mark = 0; mark < (int)(mean * BAR + 0.5); mark++) putchar('#');
    putchar('\n');
    fflush(stdout);
}

static void train(hr_learner *learner, int32_t steps) {
    const int32_t thousands = (steps + LOG_EVERY - 1) / LOG_EVERY, every = (thousands + MOST_ROWS - 1) / MOST_ROWS;
    for (int32_t step = 0; step < steps;) {
        const int32_t n = steps - step < LOG_EVERY ? steps - step : LOG_EVERY;
        const int32_t episodes = hr_run(learner, hr_learn, &game, n, ended);
        for (int32_t i = 0; i < episodes; i++) note(ended[i].episode_return);
        step += n;
        if (step == steps || step % (every * LOG_EVERY) == 0) print_row(step);
    }
}

static int32_t whole(const char *word, long low, long high) {
    char *end;
    const long value = strtol(word, &end, 10);
    if (!*word || *end || value < low || value > high) {
        fprintf(stderr, "a whole number from %ld to %ld is wanted, got '%s'\n", low, high, word);
        exit(2);
    }
    return (int32_t)value;
}

int main(int words, char **word) {
    const int32_t steps = words > 1 ? whole(word[1], 1, 1000000000) : 1000000;
    const uint32_t seed = words > 2 ? (uint32_t)whole(word[2], 0, 2147483647) : 0;
    const hr_config config = agent(steps);
    const size_t size = hr_size(&config);
    if (!size || size > sizeof memory) {
        fprintf(stderr, "the learner: %s\n", size ? "ROOM is too small for it" : hr_problem(&config));
        return 1;
    }
    float frame[HR_CELLS * HR_MOST_CHANNELS];
    hr_learner *learner = hr_init(&config, memory, seed);
    hr_game_begin(&game, &hr_breakout, 0.1, 1, seed, frame);
    hr_begin(learner, frame);
    printf("Breakout, Stream Q(lambda): learner %zu bytes, game %zu bytes\n", size, sizeof game);
    printf("%10s %8s  of the last %d episodes\n", "step", "return", RECENT);
    const clock_t began = clock();
    train(learner, steps);
    const double seconds = (double)(clock() - began) / CLOCKS_PER_SEC;
    printf("%d steps in %.1f s: %.0f steps/s\n", (int)steps, seconds, steps / seconds);
    return 0;
}
