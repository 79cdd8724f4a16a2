/* Breakout: keep the ball in play with the paddle, one point for each brick that it breaks; difficulty does not ramp. */
#include "minatar.h"

#define FIRST_BRICKS 1
#define LAST_BRICKS 3
#define FLOOR 9
#define WALL 0x3ff /* a whole row of bricks */

enum { PADDLE, BALL, TRAIL, BRICKS, CHANNELS };

static void build_wall(hr_breakout_board *b) {
    for (int i = 0; i < 3; i++) b->bricks[i] = WALL;
}

static void reset(hr_board *board, hr_twister *random) {
    hr_breakout_board *b = &board->breakout;
    const int from_right = hr_twister_below(random, 2), column = from_right ? 9 : 0;
    *b = (hr_breakout_board){.paddle = 4, .row = 3, .column = column, .down = 1, .right = from_right ? -1 : 1,
                             .last_row = 3, .last_column = column};
    build_wall(b);
}

static int has_brick(const hr_breakout_board *b, int32_t row, int32_t column) {
    return hr_within(row, FIRST_BRICKS, LAST_BRICKS) && b->bricks[row - FIRST_BRICKS] >> column & 1;
}

/* The ball comes to the floor: the paddle saves it, under the ball or at the corner, or the episode is over. Only here
 * a broken wall is built again, so that no brick appears around the ball. Returns the ball's row. */
static int32_t meet_floor(hr_breakout_board *b, int32_t column, int *over) {
    if (!(b->bricks[0] | b->bricks[1] | b->bricks[2])) build_wall(b);
    if (b->column == b->paddle) {
        b->down = -b->down;
    } else if (column == b->paddle) {
        b->down = -b->down, b->right = -b->right;
    } else {
        *over = 1;
        return FLOOR;
    }
    return b->row;
}

static int32_t step(hr_board *board, hr_twister *random, int32_t action, int ramping, int *over) {
    (void)random, (void)ramping;
    hr_breakout_board *b = &board->breakout;
    b->paddle = hr_clipped(b->paddle + (action == HR_RIGHT) - (action == HR_LEFT), 0, 9);
    b->last_row = b->row, b->last_column = b->column;
    const int32_t straight = b->column + b->right, column = hr_clipped(straight, 0, 9);
    int32_t row = b->row + b->down, reward = 0, struck = 0;
    if (column != straight) b->right = -b->right;
    if (row < 0) {
        row = 0, b->down = -b->down;
    } else if (has_brick(b, row, column)) {
        struck = 1;
        if (!b->struck) {
            b->bricks[row - FIRST_BRICKS] &= ~(1 << column);
            reward = 1, row = b->row, b->down = -b->down;
        }
    } else if (row == FLOOR) {
        row = meet_floor(b, column, over);
    }
    b->struck = struck, b->row = row, b->column = column;
    return reward;
}

static void show(const hr_board *board, float *frame) {
    const hr_breakout_board *b = &board->breakout;
    hr_light(frame, &hr_breakout, FLOOR, b->paddle, PADDLE);
    hr_light(frame, &hr_breakout, b->row, b->column, BALL);
    hr_light(frame, &hr_breakout, b->last_row, b->last_column, TRAIL);
    for (int row = FIRST_BRICKS; row <= LAST_BRICKS; row++)
        for (int column = 0; column < HR_SIDE; column++)
            if (has_brick(b, row, column)) hr_light(frame, &hr_breakout, row, column, BRICKS);
}

static int sound(const hr_board *board) {
    const hr_breakout_board *b = &board->breakout;
    for (int i = 0; i < 3; i++)
        if (!hr_within(b->bricks[i], 0, WALL)) return 0;
    return hr_on_board(b->paddle) && hr_within(b->row, 0, FLOOR - 1) && hr_on_board(b->column) &&
           (b->down == 1 || b->down == -1) && (b->right == 1 || b->right == -1);
}

const hr_rules hr_breakout = {"breakout", CHANNELS, 3, {HR_NOOP, HR_LEFT, HR_RIGHT}, reset, step, show, sound};
