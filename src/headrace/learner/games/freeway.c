/* Freeway: cross eight lanes of cars, one point for each crossing; an episode lasts 2,501 steps, without ramping. */
#include "minatar.h"

#define LANES 8
#define START_ROW 9
#define COLUMN 4        /* the only one that the chicken walks in */
#define REST 3          /* steps from one move of the chicken to the next */
#define SLOWEST 5       /* steps of a car between two moves */
#define TIME_LIMIT 2500 /* steps; the one after it ends the episode */

enum { CHICKEN, CARS, TRAILS, CHANNELS = TRAILS + SLOWEST }; /* a trail's channel tells the car's pause */

/* New speeds and directions; the cars stay where they are. All speeds are drawn before the first direction. */
static void change_traffic(hr_freeway_board *b, hr_twister *random) {
    for (int i = 0; i < LANES; i++) b->car[i].wait = b->car[i].pause = 1 + hr_twister_below(random, SLOWEST);
    for (int i = 0; i < LANES; i++) b->car[i].rightward = hr_twister_rand(random) > 0.5;
}

static void reset(hr_board *board, hr_twister *random) {
    board->freeway = (hr_freeway_board){.row = START_ROW, .rest = REST, .time_left = TIME_LIMIT};
    change_traffic(&board->freeway, random);
}

/* A car that meets the chicken, before or after its move, sends it to the start. */
static void drive(hr_freeway_board *b, int i) {
    hr_car *car = &b->car[i];
    if (b->row == i + 1 && car->column == COLUMN) b->row = START_ROW;
    if (car->wait--) return;
    car->wait = car->pause;
    car->column = (car->column + (car->rightward ? 1 : HR_SIDE - 1)) % HR_SIDE;
    if (b->row == i + 1 && car->column == COLUMN) b->row = START_ROW;
}

static int32_t step(hr_board *board, hr_twister *random, int32_t action, int ramping, int *over) {
    (void)ramping;
    hr_freeway_board *b = &board->freeway;
    if ((action == HR_UP || action == HR_DOWN) && !b->rest)
        b->rest = REST, b->row = hr_clipped(b->row + (action == HR_DOWN ? 1 : -1), 0, START_ROW);
    const int crossed = b->row == 0;
    if (crossed) change_traffic(b, random), b->row = START_ROW;
    for (int i = 0; i < LANES; i++) drive(b, i);
    b->rest -= b->rest > 0;
    *over = --b->time_left < 0;
    return crossed;
}

static void show(const hr_board *board, float *frame) {
    const hr_freeway_board *b = &board->freeway;
    hr_light(frame, &hr_freeway, b->row, COLUMN, CHICKEN);
    for (int i = 0; i < LANES; i++) {
        const hr_car *car = &b->car[i];
        const int32_t behind = (car->column + (car->rightward ? HR_SIDE - 1 : 1)) % HR_SIDE;
        hr_light(frame, &hr_freeway, i + 1, car->column, CARS);
        hr_light(frame, &hr_freeway, i + 1, behind, TRAILS + car->pause - 1);
    }
}

static int sound(const hr_board *board) {
    const hr_freeway_board *b = &board->freeway;
    for (int i = 0; i < LANES; i++)
        if (!hr_on_board(b->car[i].column) || !hr_within(b->car[i].pause, 1, SLOWEST) ||
            !hr_within(b->car[i].wait, 0, SLOWEST))
            return 0;
    return hr_within(b->row, 0, START_ROW) && hr_within(b->rest, 0, REST) && hr_within(b->time_left, 0, TIME_LIMIT);
}

const hr_rules hr_freeway = {"freeway", CHANNELS, 3, {HR_NOOP, HR_UP, HR_DOWN}, reset, step, show, sound};
