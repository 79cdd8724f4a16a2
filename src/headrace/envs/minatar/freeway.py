"""Freeway: cross eight lanes of cars, one point for each crossing; an episode lasts 2,501 steps, without ramping."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

CHANNELS = 7  # chicken, car, and the trails of cars with a pause of 1, 2, 3, 4 and 5 steps
ACTIONS = (0, 2, 4)

LANES = 8  # lane i is row i + 1
START_ROW = 9
COLUMN = 4  # the only one the chicken walks in
REST = 3  # steps from one move of the chicken to the next
TIME_LIMIT = 2500  # steps; the one after it ends the episode

UP, DOWN = 2, 4

_CELLS = np.arange(10, dtype=np.int32)
_ROWS = np.arange(1, LANES + 1, dtype=np.int32)
_PAUSES = np.arange(1, 6, dtype=np.int32)


class Draws(NamedTuple):
    pause: jax.Array  # int (8,), 1..5
    rightward: jax.Array  # bool (8,)


class State(NamedTuple):
    row: jax.Array  # the chicken's
    rest: jax.Array
    time_left: jax.Array
    column: jax.Array  # int (8,), of each lane's car
    wait: jax.Array  # int (8,): steps that each car still stands
    pause: jax.Array  # int (8,): steps that each car stands between two moves
    rightward: jax.Array  # bool (8,)


def draw(key: Any) -> Draws:
    """A uniform number in 0..9 holds a car's pause and direction as its digits, so the two are independent."""
    number = jax.random.randint(key, (LANES,), 0, 10)
    return Draws(1 + number // 2, number % 2 == 1)


def reset(draws: Draws) -> State:
    return State(
        row=jnp.int32(START_ROW),
        rest=jnp.int32(REST),
        time_left=jnp.int32(TIME_LIMIT),
        column=jnp.zeros(LANES, jnp.int32),
        wait=draws.pause,
        pause=draws.pause,
        rightward=draws.rightward,
    )


def step(state: State, action: Any, draws: Draws, ramping: Any) -> tuple[State, jax.Array, jax.Array]:
    walked = _walk(state, action)
    crossed = walked.row == 0
    reached = _drive(_change_traffic(walked, crossed, draws))
    time_left = state.time_left - 1
    rest = jnp.maximum(reached.rest - 1, 0)
    return reached._replace(rest=rest, time_left=time_left), crossed.astype(jnp.float32), time_left < 0


def observe(state: State) -> jax.Array:
    car = state.column[:, None] == _CELLS
    behind = ((state.column - _heading(state)) % 10)[:, None] == _CELLS
    trails = behind[:, :, None] & (state.pause[:, None, None] == _PAUSES)
    lanes = jnp.concatenate([car[:, :, None], trails], axis=-1)
    chicken = (_CELLS[:, None] == state.row) & (_CELLS == COLUMN)
    return jnp.concatenate([chicken[:, :, None], jnp.pad(lanes, ((1, 1), (0, 0), (0, 0)))], axis=-1)


def _heading(state: State) -> jax.Array:
    return jnp.where(state.rightward, 1, -1)


def _walk(state: State, action: Any) -> State:
    up, down = action == UP, action == DOWN
    walks = (up | down) & (state.rest == 0)
    row = jnp.where(walks, jnp.clip(state.row + down - up, 0, 9), state.row)
    return state._replace(row=row, rest=jnp.where(walks, REST, state.rest))


def _change_traffic(state: State, crossed: jax.Array, draws: Draws) -> State:
    """After a crossing the chicken starts again, and the cars go on from where they are at new speeds."""
    return state._replace(
        row=jnp.where(crossed, START_ROW, state.row),
        wait=jnp.where(crossed, draws.pause, state.wait),
        pause=jnp.where(crossed, draws.pause, state.pause),
        rightward=jnp.where(crossed, draws.rightward, state.rightward),
    )


def _drive(state: State) -> State:
    """Cars move around the board; one that meets the chicken, before or after its move, sends it to the start."""
    moves = state.wait == 0
    column = jnp.where(moves, (state.column + _heading(state)) % 10, state.column)
    meets = (state.row == _ROWS) & ((state.column == COLUMN) | (column == COLUMN))
    return state._replace(
        row=jnp.where(meets.any(), START_ROW, state.row),
        column=column,
        wait=jnp.where(moves, state.pause, state.wait - 1),
    )
