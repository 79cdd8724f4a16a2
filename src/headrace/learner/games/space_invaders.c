/* Space Invaders: shoot a troop of aliens that marches down, wave after wave; dodge their bombs. */
#include "minatar.h"

#define SHOT_INTERVAL 5    /* steps from one shot of the player to the next */
#define BOMB_INTERVAL 10   /* steps from one bomb to the next */
#define SLOWEST_MARCH 12   /* steps, of the first wave */
#define FASTEST_MARCH 6
#define LOWEST 9           /* row, the cannon's */
#define TROOP_ROWS 4
#define TROOP 0xfc         /* columns 2 to 7 */
#define ROW 0x3ff

enum { CANNON, ALIENS, MARCHING_LEFT, MARCHING_RIGHT, SHOTS, BOMBS, CHANNELS };

static void land_troop(hr_space_invaders_board *b) {
    for (int row = 0; row < TROOP_ROWS; row++) b->aliens[row] = TROOP;
}

static void reset(hr_board *board, hr_twister *random) {
    (void)random;
    board->space_invaders = (hr_space_invaders_board){
        .cannon = 5, .march_interval = SLOWEST_MARCH, .march_timer = SLOWEST_MARCH, .bomb_timer = BOMB_INTERVAL,
    };
    land_troop(&board->space_invaders);
}

static int32_t all_rows(const int32_t *rows) {
    int32_t columns = 0;
    for (int row = 0; row < HR_SIDE; row++) columns |= rows[row];
    return columns;
}

static int32_t count(int32_t row) {
    int32_t bits = 0;
    for (; row; row &= row - 1) bits++;
    return bits;
}

static int32_t count_aliens(const hr_space_invaders_board *b) {
    int32_t aliens = 0;
    for (int row = 0; row < HR_SIDE; row++) aliens += count(b->aliens[row]);
    return aliens;
}

static void move_up(int32_t *rows) {
    for (int row = 0; row < LOWEST; row++) rows[row] = rows[row + 1];
    rows[LOWEST] = 0;
}

static void move_down(int32_t *rows, int32_t first) {
    for (int row = LOWEST; row > 0; row--) rows[row] = rows[row - 1];
    rows[0] = first;
}

static void obey(hr_space_invaders_board *b, int32_t action) {
    if (action == HR_FIRE && !b->shot_timer) b->shots[LOWEST] |= 1 << b->cannon, b->shot_timer = SHOT_INTERVAL;
    b->cannon = hr_clipped(b->cannon + (action == HR_RIGHT) - (action == HR_LEFT), 0, 9);
}

/* One cell sideways; or where an alien stands at that wall, down and the other way. From the lowest row they come out at
 * the top, but by then they have won. */
static void march(hr_space_invaders_board *b, int *over) {
    const int32_t aliens = count_aliens(b);
    b->march_timer = aliens < b->march_interval ? aliens : b->march_interval;
    if (all_rows(b->aliens) & (b->rightward ? 1 << 9 : 1)) {
        b->rightward = !b->rightward;
        if (b->aliens[LOWEST]) *over = 1;
        move_down(b->aliens, b->aliens[LOWEST]);
    } else {
        for (int row = 0; row < HR_SIDE; row++)
            b->aliens[row] = b->rightward ? b->aliens[row] << 1 & ROW : b->aliens[row] >> 1;
    }
}

/* A bomb where the lowest alien of the nearest column is, the left one of two that are as near. */
static void drop_bomb(hr_space_invaders_board *b) {
    const int32_t columns = all_rows(b->aliens);
    int32_t column = b->cannon, row = LOWEST;
    for (int away = 0; away < HR_SIDE; away++) {
        const int32_t left = b->cannon - away, right = b->cannon + away;
        if (hr_on_board(column = left) && columns >> left & 1) break;
        if (hr_on_board(column = right) && columns >> right & 1) break;
    }
    while (row > 0 && !(b->aliens[row] >> column & 1)) row--;
    b->bombs[row] |= 1 << column;
    b->bomb_timer = BOMB_INTERVAL;
}

static int32_t shoot_down(hr_space_invaders_board *b) {
    int32_t hits = 0;
    for (int row = 0; row < HR_SIDE; row++) {
        const int32_t hit = b->aliens[row] & b->shots[row];
        b->aliens[row] &= ~hit, b->shots[row] &= ~hit;
        hits += count(hit);
    }
    return hits;
}

static int32_t step(hr_board *board, hr_twister *random, int32_t action, int ramping, int *over) {
    (void)random;
    hr_space_invaders_board *b = &board->space_invaders;
    obey(b, action);
    move_up(b->shots);
    move_down(b->bombs, 0);
    if ((b->bombs[LOWEST] | b->aliens[LOWEST]) >> b->cannon & 1) *over = 1;
    if (!b->march_timer) {
        march(b, over);
        if (b->aliens[LOWEST] >> b->cannon & 1) *over = 1;
    }
    if (!b->bomb_timer) drop_bomb(b);
    const int32_t reward = shoot_down(b);
    b->shot_timer -= b->shot_timer > 0;
    b->march_timer--, b->bomb_timer--;
    if (!all_rows(b->aliens)) {
        if (ramping && b->march_interval > FASTEST_MARCH) b->march_interval--;
        land_troop(b);
    }
    return reward;
}

static void show_rows(const int32_t *rows, int32_t channel, float *frame) {
    for (int row = 0; row < HR_SIDE; row++)
        for (int column = 0; column < HR_SIDE; column++)
            if (rows[row] >> column & 1) hr_light(frame, &hr_space_invaders, row, column, channel);
}

static void show(const hr_board *board, float *frame) {
    const hr_space_invaders_board *b = &board->space_invaders;
    hr_light(frame, &hr_space_invaders, LOWEST, b->cannon, CANNON);
    show_rows(b->aliens, ALIENS, frame);
    show_rows(b->aliens, b->rightward ? MARCHING_RIGHT : MARCHING_LEFT, frame);
    show_rows(b->shots, SHOTS, frame);
    show_rows(b->bombs, BOMBS, frame);
}

static int sound(const hr_board *board) {
    const hr_space_invaders_board *b = &board->space_invaders;
    for (int row = 0; row < HR_SIDE; row++)
        if (!hr_within(b->shots[row], 0, ROW) || !hr_within(b->bombs[row], 0, ROW) || !hr_within(b->aliens[row], 0, ROW))
            return 0;
    return all_rows(b->aliens) && hr_on_board(b->cannon) && hr_within(b->shot_timer, 0, SHOT_INTERVAL) &&
           hr_within(b->bomb_timer, 0, BOMB_INTERVAL) && hr_within(b->march_timer, 0, SLOWEST_MARCH) &&
           hr_within(b->march_interval, FASTEST_MARCH, SLOWEST_MARCH);
}

const hr_rules hr_space_invaders = {"space_invaders", CHANNELS, 4, {HR_NOOP, HR_LEFT, HR_RIGHT, HR_FIRE},
                                    reset, step, show, sound};
