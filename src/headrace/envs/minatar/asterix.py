"""Asterix: collect treasure, touch no enemy; both cross the board along eight rows and come faster with time."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

CHANNELS = 4  # player, enemy, trail, gold
ACTIONS = (0, 1, 2, 3, 4)

RAMP_INTERVAL = 100  # steps
SPAWN_INTERVAL = 10  # steps, at first
MOVE_INTERVAL = 5  # steps, at first
LANES = 8  # lane i is row i + 1; a lane holds one thing at a time
PLACES = 840  # the least common multiple of 1..8

LEFT, UP, RIGHT, DOWN = 1, 2, 3, 4

_CELLS = np.arange(10, dtype=np.int32)
_ROWS = np.arange(1, LANES + 1, dtype=np.int32)
_BEFORE = np.tri(LANES, k=-1, dtype=bool)  # [i, j]: lane j comes before lane i


class Draws(NamedTuple):
    from_left: jax.Array  # bool
    gold: jax.Array  # bool, one time in three
    place: jax.Array  # 0..839, stands for one of the free lanes however many there are


class State(NamedTuple):
    player_row: jax.Array
    player_column: jax.Array
    present: jax.Array  # bool (8,): whether there is something in each lane
    column: jax.Array  # int (8,)
    rightward: jax.Array  # bool (8,)
    gold: jax.Array  # bool (8,)
    spawn_interval: jax.Array
    spawn_timer: jax.Array
    move_interval: jax.Array
    move_timer: jax.Array
    ramp_timer: jax.Array
    ramps: jax.Array


def draw(key: Any) -> Draws:
    """One uniform number in 0..5039 holds the three outcomes as its digits, so they are independent and exact."""
    number = jax.random.randint(key, (), 0, 2 * 3 * PLACES)
    return Draws(number % 2 == 0, number // 2 % 3 == 0, number // 6)


def reset(draws: Draws) -> State:
    empty = jnp.zeros(LANES, bool)
    return State(
        player_row=jnp.int32(5),
        player_column=jnp.int32(5),
        present=empty,
        column=jnp.zeros(LANES, jnp.int32),
        rightward=empty,
        gold=empty,
        spawn_interval=jnp.int32(SPAWN_INTERVAL),
        spawn_timer=jnp.int32(SPAWN_INTERVAL),
        move_interval=jnp.int32(MOVE_INTERVAL),
        move_timer=jnp.int32(MOVE_INTERVAL),
        ramp_timer=jnp.int32(RAMP_INTERVAL),
        ramps=jnp.int32(0),
    )


def step(state: State, action: Any, draws: Draws, ramping: Any) -> tuple[State, jax.Array, jax.Array]:
    state, reward, caught = _touch(_walk(_spawn(state, draws), action))
    state, more, caught_moving = _touch(_move(state))
    timed = state._replace(spawn_timer=state.spawn_timer - 1, move_timer=state.move_timer - 1)
    return _ramp(timed, ramping), reward + more, caught | caught_moving


def observe(state: State) -> jax.Array:
    here = state.present[:, None] & (state.column[:, None] == _CELLS)
    # A trail beyond the wall equals no column and so is not seen.
    behind = state.present[:, None] & (state.column[:, None] - _heading(state)[:, None] == _CELLS)
    gold = state.gold[:, None]
    lanes = jnp.stack([here & ~gold, behind, here & gold], axis=-1)
    player = (_CELLS[:, None] == state.player_row) & (state.player_column == _CELLS)
    return jnp.concatenate([player[:, :, None], jnp.pad(lanes, ((1, 1), (0, 0), (0, 0)))], axis=-1)


def _heading(state: State) -> jax.Array:
    return jnp.where(state.rightward, 1, -1)


def _spawn(state: State, draws: Draws) -> State:
    """Something new in one of the free lanes, each as likely, where the timer is up and a lane is free."""
    due = state.spawn_timer == 0
    free = ~state.present
    # Every count of free lanes divides PLACES, so each lane is chosen by equally many of the places.
    chosen = draws.place * free.sum() // PLACES
    free_before = (free & _BEFORE).sum(axis=1)
    here = due & free & (free_before == chosen)
    return state._replace(
        present=state.present | here,
        column=jnp.where(here, jnp.where(draws.from_left, 0, 9), state.column),
        rightward=jnp.where(here, draws.from_left, state.rightward),
        gold=jnp.where(here, draws.gold, state.gold),
        spawn_timer=jnp.where(due, state.spawn_interval, state.spawn_timer),
    )


def _walk(state: State, action: Any) -> State:
    row = state.player_row + (action == DOWN) - (action == UP)
    column = state.player_column + (action == RIGHT) - (action == LEFT)
    return state._replace(player_row=jnp.clip(row, 1, 8), player_column=jnp.clip(column, 0, 9))


def _move(state: State) -> State:
    due = state.move_timer == 0
    column = jnp.where(due, state.column + _heading(state), state.column)
    return state._replace(
        present=state.present & (column >= 0) & (column <= 9),
        column=column,
        move_timer=jnp.where(due, state.move_interval, state.move_timer),
    )


def _touch(state: State) -> tuple[State, jax.Array, jax.Array]:
    """Treasure at the player's cell is taken; an enemy there catches the player."""
    touched = state.present & (state.player_row == _ROWS) & (state.column == state.player_column)
    taken = touched & state.gold
    caught = (touched & ~state.gold).any()
    return state._replace(present=state.present & ~taken), taken.any().astype(jnp.float32), caught


def _ramp(state: State, ramping: Any) -> State:
    """Each time the ramp timer has run out things come sooner, and every second time they also move faster."""
    active = ramping & ((state.spawn_interval > 1) | (state.move_interval > 1))
    waits = state.ramp_timer >= 0
    due = active & ~waits
    faster = due & (state.move_interval > 1) & (state.ramps % 2 == 1)
    sooner = due & (state.spawn_interval > 1)
    return state._replace(
        move_interval=state.move_interval - faster,
        spawn_interval=state.spawn_interval - sooner,
        ramps=state.ramps + due,
        ramp_timer=jnp.where(due, RAMP_INTERVAL, state.ramp_timer - (active & waits)),
    )
