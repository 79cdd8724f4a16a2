/* What MinAtar's games have in common: chance, sticky actions, one episode after the other. */
#include "minatar.h"

#include <string.h>

#define LAG 397 /* the twister's middle word */

void hr_twister_seed(hr_twister *random, uint32_t seed) {
    for (uint32_t i = 0; i < HR_TWISTER_WORDS; i++) {
        random->word[i] = seed;
        seed = 1812433253u * (seed ^ (seed >> 30)) + i + 1;
    }
    random->used = HR_TWISTER_WORDS;
}

static void twist(hr_twister *random) {
    uint32_t *x = random->word;
    for (int i = 0; i < HR_TWISTER_WORDS; i++) {
        const uint32_t joined = (x[i] & 0x80000000u) | (x[(i + 1) % HR_TWISTER_WORDS] & 0x7fffffffu);
        x[i] = x[(i + LAG) % HR_TWISTER_WORDS] ^ (joined >> 1) ^ (joined & 1 ? 0x9908b0dfu : 0);
    }
    random->used = 0;
}

static uint32_t next_word(hr_twister *random) {
    if (random->used >= HR_TWISTER_WORDS) twist(random);
    uint32_t y = random->word[random->used++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
}

double hr_twister_rand(hr_twister *random) {
    const uint32_t high = next_word(random) >> 5, low = next_word(random) >> 6;
    return (high * 67108864.0 + low) / 9007199254740992.0;
}

/* Words under the smallest mask that holds every outcome, until one is an outcome. */
int32_t hr_twister_below(hr_twister *random, int32_t outcomes) {
    const uint32_t last = (uint32_t)outcomes - 1;
    uint32_t mask = last, found;
    if (!last) return 0;
    for (int by = 1; by < 32; by *= 2) mask |= mask >> by;
    do found = next_word(random) & mask;
    while (found > last);
    return (int32_t)found;
}

void hr_game_begin(hr_game *game, const hr_rules *rules, double sticky, int ramping, uint32_t seed, float *frame) {
    memset(game, 0, sizeof *game);
    game->rules = rules, game->sticky = sticky, game->ramping = ramping;
    hr_twister_seed(&game->saved.random, seed);
    rules->reset(&game->saved.board, &game->saved.random);
    hr_game_show(game, frame);
}

int hr_game_step(hr_game *game, int32_t action, float *successor, float *frame, float *reward) {
    const hr_rules *rules = game->rules;
    int over = 0;
    if (!hr_within(action, 0, rules->actions - 1)) return -1;
    if (hr_twister_rand(&game->saved.random) >= game->sticky) game->saved.last_action = rules->action[action];
    *reward = (float)rules->step(&game->saved.board, &game->saved.random, game->saved.last_action, game->ramping, &over);
    hr_game_show(game, successor);
    if (!over) return 0;
    rules->reset(&game->saved.board, &game->saved.random);
    hr_game_show(game, frame);
    return 1;
}

void hr_game_show(const hr_game *game, float *frame) {
    memset(frame, 0, sizeof(float) * HR_CELLS * (size_t)game->rules->channels);
    game->rules->show(&game->saved.board, frame);
}

int hr_game_sound(const hr_game *game) {
    return hr_within(game->saved.last_action, HR_NOOP, HR_FIRE) && game->saved.random.used <= HR_TWISTER_WORDS &&
           game->rules->sound(&game->saved.board);
}
