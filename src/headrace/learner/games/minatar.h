/* MinAtar's five games (Young and Tian 2019), from their rules. With the same seed and the same actions they show the
 * same boards, rewards and ends as version 1.0.15 of the package `minatar`, whose chance is NumPy's RandomState.
 *
 * The caller gives the memory: one `hr_game`. Nothing here allocates, and nothing is global.
 */
#ifndef HR_MINATAR_H
#define HR_MINATAR_H

#include <stdint.h>

#define HR_SIDE 10 /* cells along one side of the board */
#define HR_CELLS (HR_SIDE * HR_SIDE)
#define HR_MOST_CHANNELS 10

/* Random numbers: the Mersenne Twister MT19937 (Matsumoto and Nishimura 1998), drawn from as RandomState does. */

#define HR_TWISTER_WORDS 624

typedef struct {
    uint32_t word[HR_TWISTER_WORDS], used;
} hr_twister;

void hr_twister_seed(hr_twister *random, uint32_t seed);
double hr_twister_rand(hr_twister *random);                    /* rand(): in [0, 1), 53 bits */
int32_t hr_twister_below(hr_twister *random, int32_t outcomes); /* randint(outcomes); draws nothing if there is one */

/* The games. Rows count from the top, columns from the left. What is saved of a game is made of 32-bit words only. */

typedef struct {
    int32_t thing, column, rightward; /* no thing: an empty lane */
} hr_lane;

typedef struct {
    int32_t row, column; /* of the player */
    hr_lane lane[8];     /* lane i is row i + 1 */
    int32_t spawn_interval, spawn_timer, move_interval, move_timer, ramp_timer, ramps;
} hr_asterix_board;

typedef struct {
    int32_t paddle, row, column, down, right; /* down, right: what a step adds to the ball's row and column */
    int32_t last_row, last_column;            /* where the ball was a step ago */
    int32_t bricks[3];                        /* rows 1 to 3, bit c for column c */
    int32_t struck; /* the last step broke a brick; one that is met right after is passed through */
} hr_breakout_board;

typedef struct {
    int32_t column, wait, pause, rightward; /* wait: steps until it moves; pause: steps between two moves */
} hr_car;

typedef struct {
    int32_t row, rest, time_left; /* rest: steps until the chicken may walk */
    hr_car car[8];                /* car i is in row i + 1 */
} hr_freeway_board;

#define HR_MOST_SWIMMERS 48 /* more of a kind than the rules allow at once: see seaquest.c */

typedef struct {
    int32_t row, column, rightward;
    int32_t move_timer, shot_timer; /* zero where a kind has none */
} hr_swimmer;

typedef struct {
    int32_t count;
    hr_swimmer at[HR_MOST_SWIMMERS]; /* the oldest first */
} hr_shoal;

typedef struct {
    int32_t row, column, rightward; /* of the player's submarine */
    int32_t oxygen, crew, surfaced; /* crew: rescued divers; -1 after surfacing with six, and lower from there */
    hr_shoal shots, torpedoes, fish, submarines, divers;
    int32_t shot_timer, enemy_timer, diver_timer, enemy_interval, move_interval, ramps;
} hr_seaquest_board;

typedef struct {
    int32_t cannon, shots[HR_SIDE], bombs[HR_SIDE], aliens[HR_SIDE]; /* by row, bit c for column c */
    int32_t rightward, march_interval, march_timer, bomb_timer, shot_timer;
} hr_space_invaders_board;

typedef union {
    hr_asterix_board asterix;
    hr_breakout_board breakout;
    hr_freeway_board freeway;
    hr_seaquest_board seaquest;
    hr_space_invaders_board space_invaders;
} hr_board;

enum { HR_NOOP, HR_LEFT, HR_UP, HR_RIGHT, HR_DOWN, HR_FIRE };

typedef struct {
    const char *name;
    int32_t channels, actions, action[6]; /* those actions that mean something */
    void (*reset)(hr_board *board, hr_twister *random);
    int32_t (*step)(hr_board *board, hr_twister *random, int32_t action, int ramping, int *over); /* the reward */
    void (*show)(const hr_board *board, float *frame);
    int (*sound)(const hr_board *board); /* whether such a board can be played on */
} hr_rules;

extern const hr_rules hr_asterix, hr_breakout, hr_freeway, hr_seaquest, hr_space_invaders;

typedef struct {
    const hr_rules *rules;
    double sticky;   /* probability that the action last taken is taken again instead of the chosen one */
    int32_t ramping; /* whether the game grows harder */
    struct {
        int32_t last_action; /* outlives an episode, as in the package */
        hr_twister random;
        hr_board board;
    } saved; /* everything that changes */
} hr_game;

/* The first episode; `frame` becomes its first observation: (row, column, channel), zeros and ones. */
void hr_game_begin(hr_game *game, const hr_rules *rules, double sticky, int ramping, uint32_t seed, float *frame);

/* Takes the action, a number into `rules->action`; `successor` becomes what it led to. Where the episode ended the
 * result is 1, the next one is begun and `frame` becomes its first observation. -1: no such action, nothing changed. */
int hr_game_step(hr_game *game, int32_t action, float *successor, float *frame, float *reward);

void hr_game_show(const hr_game *game, float *frame);

/* Whether what was read into `saved` is a situation that can be played on. */
int hr_game_sound(const hr_game *game);

/* What the games share. */

static inline int hr_within(int32_t x, int32_t low, int32_t high) { return x >= low && x <= high; }

static inline int32_t hr_clipped(int32_t x, int32_t low, int32_t high) { return x < low ? low : x > high ? high : x; }

static inline int hr_on_board(int32_t column) { return hr_within(column, 0, HR_SIDE - 1); }

static inline void hr_light(float *frame, const hr_rules *rules, int32_t row, int32_t column, int32_t channel) {
    if (hr_on_board(row) && hr_on_board(column)) frame[(row * HR_SIDE + column) * rules->channels + channel] = 1;
}

#endif
