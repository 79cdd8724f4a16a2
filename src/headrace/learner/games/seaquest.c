/* Seaquest: shoot fish and submarines, bring divers up, and come up for air; all of it faster at every surfacing.
 *
 * The package keeps lists, goes through them from the youngest to the oldest, and takes out of a list *the oldest that is
 * equal* to what is to go. Where that is another one, the one that was to go is met again in its new place: here as there.
 *
 * How many there are at once: an enemy crosses the board in 10 (m + 1) steps and one comes every n steps, where (m, n)
 * begin as (5, 20) and reach m = 2 before n = 14: at most 31. A submarine fires once in 11 steps and a torpedo is gone
 * after 10: no more torpedoes than submarines of the last 10 steps, at most 41. Shots are 5 steps apart and gone after
 * 10; divers are 30 steps apart and gone after 60.
 */
#include "minatar.h"

#include <string.h>

#define FULL_OXYGEN 200
#define OXYGEN_PER_CELL (FULL_OXYGEN / HR_SIDE)
#define FULL_CREW 6
#define LOWEST 8 /* row that the player reaches */
#define BOTTOM 9 /* row of the gauges */
#define SPAWN_INTERVAL 20
#define FASTEST_SPAWN 1
#define MOVE_INTERVAL 5
#define FASTEST_MOVE 2
#define DIVER_INTERVAL 30
#define DIVER_MOVE_INTERVAL 5
#define SHOT_INTERVAL 5
#define TORPEDO_INTERVAL 10

enum { FRONT, BACK, SHOTS, TRAILS, TORPEDOES, FISH, SUBMARINES, OXYGEN, CREW, DIVERS, CHANNELS };

static void reset(hr_board *board, hr_twister *random) {
    (void)random;
    hr_seaquest_board *b = &board->seaquest;
    memset(b, 0, sizeof *b);
    b->column = 5, b->surfaced = 1, b->oxygen = FULL_OXYGEN;
    b->enemy_interval = b->enemy_timer = SPAWN_INTERVAL;
    b->diver_timer = DIVER_INTERVAL, b->move_interval = MOVE_INTERVAL;
}

/* Shoals */

static void add(hr_shoal *shoal, hr_swimmer newcomer) {
    if (shoal->count < HR_MOST_SWIMMERS) shoal->at[shoal->count++] = newcomer;
}

static void take_out(hr_shoal *shoal, int i) {
    shoal->count--;
    memmove(&shoal->at[i], &shoal->at[i + 1], (size_t)(shoal->count - i) * sizeof *shoal->at);
}

static int is_same(const hr_swimmer *a, const hr_swimmer *b) { return !memcmp(a, b, sizeof *a); }

/* Takes out the oldest that is equal to the i-th: whether that was the i-th itself. If not, it is now at i - 1. */
static int take_out_equal(hr_shoal *shoal, int i) {
    int oldest = 0;
    while (!is_same(&shoal->at[oldest], &shoal->at[i])) oldest++;
    take_out(shoal, oldest);
    return oldest == i;
}

/* The oldest in that cell; -1 where nobody is. */
static int find(const hr_shoal *shoal, int32_t row, int32_t column) {
    for (int i = 0; i < shoal->count; i++)
        if (shoal->at[i].row == row && shoal->at[i].column == column) return i;
    return -1;
}

static int is_at(const hr_swimmer *s, const hr_seaquest_board *b) { return s->row == b->row && s->column == b->column; }

static void advance(hr_swimmer *s) { s->column += s->rightward ? 1 : -1; }

/* What comes */

static int swims_against(const hr_shoal *shoal, int32_t row, int rightward) {
    for (int i = 0; i < shoal->count; i++)
        if (shoal->at[i].row == row && shoal->at[i].rightward != rightward) return 1;
    return 0;
}

/* An enemy against the traffic of its row stays away. */
static void spawn_enemy(hr_seaquest_board *b, hr_twister *random) {
    const int rightward = hr_twister_rand(random) < 1.0 / 2, is_submarine = hr_twister_rand(random) < 1.0 / 3;
    const int32_t row = 1 + hr_twister_below(random, LOWEST);
    if (swims_against(&b->submarines, row, rightward) || swims_against(&b->fish, row, rightward)) return;
    const hr_swimmer enemy = {row, rightward ? 0 : 9, rightward, b->move_interval, is_submarine ? TORPEDO_INTERVAL : 0};
    add(is_submarine ? &b->submarines : &b->fish, enemy);
}

static void spawn_diver(hr_seaquest_board *b, hr_twister *random) {
    const int rightward = hr_twister_rand(random) < 1.0 / 2;
    const int32_t row = 1 + hr_twister_below(random, LOWEST);
    add(&b->divers, (hr_swimmer){row, rightward ? 0 : 9, rightward, DIVER_MOVE_INTERVAL, 0});
}

/* What moves, in this order */

static void obey(hr_seaquest_board *b, int32_t action) {
    if (action == HR_FIRE && !b->shot_timer)
        add(&b->shots, (hr_swimmer){b->row, b->column, b->rightward, 0, 0}), b->shot_timer = SHOT_INTERVAL;
    if (action == HR_LEFT || action == HR_RIGHT) b->rightward = action == HR_RIGHT;
    b->column = hr_clipped(b->column + (action == HR_RIGHT) - (action == HR_LEFT), 0, 9);
    b->row = hr_clipped(b->row + (action == HR_DOWN) - (action == HR_UP), 0, LOWEST);
}

/* A shot takes one enemy with it: the oldest fish in its cell, else the oldest submarine. */
static int32_t fly_shots(hr_seaquest_board *b) {
    int32_t kills = 0;
    for (int i = b->shots.count - 1; i >= 0; i--) {
        hr_swimmer *shot = &b->shots.at[i];
        advance(shot);
        if (!hr_on_board(shot->column)) {
            take_out_equal(&b->shots, i);
            continue;
        }
        const int fish = find(&b->fish, shot->row, shot->column);
        const int submarine = find(&b->submarines, shot->row, shot->column);
        if (fish < 0 && submarine < 0) continue;
        if (fish >= 0) take_out(&b->fish, fish);
        else take_out(&b->submarines, submarine);
        take_out_equal(&b->shots, i);
        kills++;
    }
    return kills;
}

static int comes_aboard(hr_seaquest_board *b, int i) {
    if (!is_at(&b->divers.at[i], b) || b->crew >= FULL_CREW) return 0;
    take_out_equal(&b->divers, i);
    b->crew++;
    return 1;
}

static void move_divers(hr_seaquest_board *b) {
    for (int i = b->divers.count - 1; i >= 0; i--) {
        hr_swimmer *diver = &b->divers.at[i];
        if (comes_aboard(b, i) || diver->move_timer--) continue;
        diver->move_timer = DIVER_MOVE_INTERVAL;
        advance(diver);
        if (!hr_on_board(diver->column)) take_out_equal(&b->divers, i);
        else comes_aboard(b, i);
    }
}

/* Moves an enemy where it is due. Meeting the player ends the episode, swimming into a shot the enemy. Returns where it
 * is now in its shoal; -1 where it is gone, and `left` is what it was. */
static int swim(hr_seaquest_board *b, hr_shoal *shoal, int i, hr_swimmer *left, int32_t *kills, int *over) {
    hr_swimmer *enemy = &shoal->at[i];
    if (is_at(enemy, b)) *over = 1;
    if (enemy->move_timer--) return i;
    enemy->move_timer = b->move_interval;
    advance(enemy);
    if (is_at(enemy, b)) return *over = 1, i;
    const int shot = find(&b->shots, enemy->row, enemy->column);
    if (hr_on_board(enemy->column) && shot < 0) return i;
    *left = *enemy;
    if (hr_on_board(enemy->column)) take_out(&b->shots, shot), ++*kills;
    return take_out_equal(shoal, i) ? -1 : i - 1;
}

static int32_t move_submarines(hr_seaquest_board *b, int *over) {
    int32_t kills = 0;
    for (int i = b->submarines.count - 1; i >= 0; i--) {
        hr_swimmer gone;
        const int place = swim(b, &b->submarines, i, &gone, &kills, over);
        hr_swimmer *submarine = place < 0 ? &gone : &b->submarines.at[place];
        if (submarine->shot_timer--) continue;
        submarine->shot_timer = TORPEDO_INTERVAL;
        add(&b->torpedoes, (hr_swimmer){submarine->row, submarine->column, submarine->rightward, 0, 0});
    }
    return kills;
}

static void fly_torpedoes(hr_seaquest_board *b, int *over) {
    for (int i = b->torpedoes.count - 1; i >= 0; i--) {
        hr_swimmer *torpedo = &b->torpedoes.at[i];
        if (is_at(torpedo, b)) *over = 1;
        advance(torpedo);
        if (is_at(torpedo, b)) *over = 1;
        if (!hr_on_board(torpedo->column)) take_out_equal(&b->torpedoes, i);
    }
}

static int32_t move_fish(hr_seaquest_board *b, int *over) {
    int32_t kills = 0;
    hr_swimmer gone;
    for (int i = b->fish.count - 1; i >= 0; i--) swim(b, &b->fish, i, &gone, &kills, over);
    return kills;
}

/* Air */

/* Spawns come faster with every surfacing, moves with every second one. */
static void ramp(hr_seaquest_board *b) {
    if (b->enemy_interval <= FASTEST_SPAWN && b->move_interval <= FASTEST_MOVE) return;
    if (b->move_interval > FASTEST_MOVE && b->ramps % 2) b->move_interval--;
    if (b->enemy_interval > FASTEST_SPAWN) b->enemy_interval--;
    b->ramps++;
}

/* New air for one diver; with a full crew for all of them, and a reward by the air that was left. */
static int32_t surface(hr_seaquest_board *b, int ramping) {
    const int full = b->crew == FULL_CREW;
    const int32_t reward = full ? b->oxygen / OXYGEN_PER_CELL : 0;
    b->surfaced = 1, b->oxygen = FULL_OXYGEN;
    b->crew = (full ? 0 : b->crew) - 1;
    if (ramping) ramp(b);
    return reward;
}

static int32_t breathe(hr_seaquest_board *b, int ramping, int *over) {
    if (b->oxygen <= 0) *over = 1;
    if (b->row > 0) {
        b->oxygen--, b->surfaced = 0;
        return 0;
    }
    if (b->surfaced) return 0;
    if (b->crew) return surface(b, ramping);
    *over = 1;
    return 0;
}

static int32_t step(hr_board *board, hr_twister *random, int32_t action, int ramping, int *over) {
    hr_seaquest_board *b = &board->seaquest;
    if (!b->enemy_timer) spawn_enemy(b, random), b->enemy_timer = b->enemy_interval;
    if (!b->diver_timer) spawn_diver(b, random), b->diver_timer = DIVER_INTERVAL;
    obey(b, action);
    int32_t reward = fly_shots(b);
    move_divers(b);
    reward += move_submarines(b, over);
    fly_torpedoes(b, over);
    reward += move_fish(b, over);
    b->enemy_timer -= b->enemy_timer > 0, b->diver_timer -= b->diver_timer > 0, b->shot_timer -= b->shot_timer > 0;
    return reward + breathe(b, ramping, over);
}

static void show_shoal(const hr_shoal *shoal, int channel, int leaves_trail, float *frame) {
    for (int i = 0; i < shoal->count; i++) {
        const hr_swimmer *s = &shoal->at[i];
        hr_light(frame, &hr_seaquest, s->row, s->column, channel);
        if (leaves_trail) hr_light(frame, &hr_seaquest, s->row, s->column + (s->rightward ? -1 : 1), TRAILS);
    }
}

static void show(const hr_board *board, float *frame) {
    const hr_seaquest_board *b = &board->seaquest;
    hr_light(frame, &hr_seaquest, b->row, b->column, FRONT);
    hr_light(frame, &hr_seaquest, b->row, b->column + (b->rightward ? -1 : 1), BACK);
    for (int32_t cell = 0; cell < b->oxygen / OXYGEN_PER_CELL; cell++) hr_light(frame, &hr_seaquest, BOTTOM, cell, OXYGEN);
    for (int32_t diver = 0; diver < b->crew; diver++) hr_light(frame, &hr_seaquest, BOTTOM, 8 - diver, CREW);
    show_shoal(&b->shots, SHOTS, 0, frame);
    show_shoal(&b->torpedoes, TORPEDOES, 0, frame);
    show_shoal(&b->fish, FISH, 1, frame);
    show_shoal(&b->submarines, SUBMARINES, 1, frame);
    show_shoal(&b->divers, DIVERS, 1, frame);
}

static int is_sound_shoal(const hr_shoal *shoal) {
    if (!hr_within(shoal->count, 0, HR_MOST_SWIMMERS)) return 0;
    for (int i = 0; i < shoal->count; i++) {
        const hr_swimmer *s = &shoal->at[i];
        if (!hr_within(s->row, 0, LOWEST) || !hr_on_board(s->column) || !hr_within(s->rightward, 0, 1) ||
            !hr_within(s->move_timer, 0, MOVE_INTERVAL) || !hr_within(s->shot_timer, 0, TORPEDO_INTERVAL))
            return 0;
    }
    return 1;
}

static int sound(const hr_board *board) {
    const hr_seaquest_board *b = &board->seaquest;
    return hr_within(b->row, 0, LOWEST) && hr_on_board(b->column) && hr_within(b->rightward, 0, 1) &&
           hr_within(b->oxygen, -1, FULL_OXYGEN) && hr_within(b->crew, -(1 << 30), FULL_CREW) &&
           hr_within(b->enemy_interval, FASTEST_SPAWN, SPAWN_INTERVAL) && hr_within(b->ramps, 0, 2 * SPAWN_INTERVAL) &&
           hr_within(b->move_interval, FASTEST_MOVE, MOVE_INTERVAL) && hr_within(b->enemy_timer, 0, SPAWN_INTERVAL) &&
           hr_within(b->diver_timer, 0, DIVER_INTERVAL) && hr_within(b->shot_timer, 0, SHOT_INTERVAL) &&
           is_sound_shoal(&b->shots) && is_sound_shoal(&b->torpedoes) && is_sound_shoal(&b->fish) &&
           is_sound_shoal(&b->submarines) && is_sound_shoal(&b->divers);
}

const hr_rules hr_seaquest = {"seaquest", CHANNELS, 6, {HR_NOOP, HR_LEFT, HR_UP, HR_RIGHT, HR_DOWN, HR_FIRE},
                              reset, step, show, sound};
