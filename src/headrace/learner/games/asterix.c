/* Asterix: collect treasure, touch no enemy; both cross the board along eight lanes and come faster with time. */
#include "minatar.h"

#define LANES 8
#define RAMP_INTERVAL 100 /* steps */
#define SPAWN_INTERVAL 10 /* steps, at first */
#define MOVE_INTERVAL 5   /* steps, at first */

enum { NOTHING, ENEMY, GOLD };
enum { PLAYER, ENEMIES, TRAILS, TREASURE, CHANNELS };

static void reset(hr_board *board, hr_twister *random) {
    (void)random;
    board->asterix = (hr_asterix_board){
        .row = 5, .column = 5, .spawn_interval = SPAWN_INTERVAL, .spawn_timer = SPAWN_INTERVAL,
        .move_interval = MOVE_INTERVAL, .move_timer = MOVE_INTERVAL, .ramp_timer = RAMP_INTERVAL,
    };
}

/* Something new in one of the free lanes, each as likely; direction and kind are drawn even where none is free. */
static void spawn(hr_asterix_board *b, hr_twister *random) {
    const int rightward = hr_twister_rand(random) < 1.0 / 2, gold = hr_twister_rand(random) < 1.0 / 3;
    int free[LANES], found = 0;
    for (int i = 0; i < LANES; i++)
        if (!b->lane[i].thing) free[found++] = i;
    if (found) b->lane[free[hr_twister_below(random, found)]] = (hr_lane){gold ? GOLD : ENEMY, rightward ? 0 : 9, rightward};
}

/* Treasure in the player's cell is taken, for a reward; an enemy there ends the episode. */
static int32_t touch(hr_asterix_board *b, int *over) {
    hr_lane *here = &b->lane[b->row - 1];
    if (!here->thing || here->column != b->column) return 0;
    if (here->thing == ENEMY) return *over = 1, 0;
    here->thing = NOTHING;
    return 1;
}

static void move(hr_asterix_board *b) {
    for (int i = 0; i < LANES; i++) {
        if (!b->lane[i].thing) continue;
        b->lane[i].column += b->lane[i].rightward ? 1 : -1;
        if (!hr_on_board(b->lane[i].column)) b->lane[i].thing = NOTHING;
    }
}

/* Each time the ramp timer has run out things come sooner, and every second time they also move faster. */
static void ramp(hr_asterix_board *b) {
    if (b->spawn_interval <= 1 && b->move_interval <= 1) return;
    if (b->ramp_timer-- >= 0) return;
    if (b->move_interval > 1 && b->ramps % 2) b->move_interval--;
    if (b->spawn_interval > 1) b->spawn_interval--;
    b->ramps++, b->ramp_timer = RAMP_INTERVAL;
}

static int32_t step(hr_board *board, hr_twister *random, int32_t action, int ramping, int *over) {
    hr_asterix_board *b = &board->asterix;
    if (!b->spawn_timer) spawn(b, random), b->spawn_timer = b->spawn_interval;
    b->column = hr_clipped(b->column + (action == HR_RIGHT) - (action == HR_LEFT), 0, 9);
    b->row = hr_clipped(b->row + (action == HR_DOWN) - (action == HR_UP), 1, LANES);
    int32_t reward = touch(b, over);
    if (!b->move_timer) {
        b->move_timer = b->move_interval;
        move(b);
        reward += touch(b, over);
    }
    b->spawn_timer--, b->move_timer--;
    if (ramping) ramp(b);
    return reward;
}

static void show(const hr_board *board, float *frame) {
    const hr_asterix_board *b = &board->asterix;
    hr_light(frame, &hr_asterix, b->row, b->column, PLAYER);
    for (int i = 0; i < LANES; i++) {
        const hr_lane *lane = &b->lane[i];
        if (!lane->thing) continue;
        hr_light(frame, &hr_asterix, i + 1, lane->column, lane->thing == GOLD ? TREASURE : ENEMIES);
        hr_light(frame, &hr_asterix, i + 1, lane->column + (lane->rightward ? -1 : 1), TRAILS);
    }
}

static int sound(const hr_board *board) {
    const hr_asterix_board *b = &board->asterix;
    for (int i = 0; i < LANES; i++)
        if (!hr_within(b->lane[i].thing, NOTHING, GOLD) || !hr_within(b->lane[i].column, -1, 10)) return 0;
    return hr_within(b->row, 1, LANES) && hr_on_board(b->column) && hr_within(b->spawn_interval, 1, SPAWN_INTERVAL) &&
           hr_within(b->spawn_timer, 0, SPAWN_INTERVAL) && hr_within(b->move_interval, 1, MOVE_INTERVAL) &&
           hr_within(b->move_timer, 0, MOVE_INTERVAL) && hr_within(b->ramp_timer, -1, RAMP_INTERVAL) &&
           hr_within(b->ramps, 0, 2 * SPAWN_INTERVAL);
}

const hr_rules hr_asterix = {"asterix", CHANNELS, 5, {HR_NOOP, HR_LEFT, HR_UP, HR_RIGHT, HR_DOWN}, reset, step, show, sound};
