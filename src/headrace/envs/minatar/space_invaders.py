"""MinAtar's Space Invaders as pure functions of a state, an action and the random outcomes of the step."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp

CHANNELS = 6
ACTIONS = (0, 1, 3, 5)
LEFT, RIGHT, FIRE = 1, 3, 5

SIZE = 10
SHOT_INTERVAL = 5
ALIEN_SHOT_INTERVAL = 10
SLOWEST_MARCH, FASTEST_MARCH = 12, 6  # the march interval of the first wave, and the lowest that ramping leads to


class Draws(NamedTuple):
    """Nothing: this game leaves nothing to chance."""


class State(NamedTuple):
    x: Any
    shots: Any  # (10, 10) bool: the player's bullets
    bombs: Any  # (10, 10) bool: the aliens' bullets
    aliens: Any  # (10, 10) bool; never empty between steps
    rightward: Any  # the way the aliens march
    shot_timer: Any
    bomb_timer: Any
    march_timer: Any
    march_interval: Any


def draw(key: Any) -> Draws:
    """No outcome at all."""
    del key
    return Draws()


def reset(draws: Draws) -> State:
    """The start of an episode."""
    del draws
    nothing = jnp.zeros((SIZE, SIZE), bool)
    return State(
        x=jnp.int32(5),
        shots=nothing,
        bombs=nothing,
        aliens=_wave(),
        rightward=jnp.bool_(False),
        shot_timer=jnp.int32(0),
        bomb_timer=jnp.int32(ALIEN_SHOT_INTERVAL),
        march_timer=jnp.int32(SLOWEST_MARCH),
        march_interval=jnp.int32(SLOWEST_MARCH),
    )


def step(state: State, action: Any, draws: Draws, ramping: Any) -> tuple[State, Any, Any]:
    """The state after `action`, the reward, and whether the player is lost."""
    del draws
    state = _fly(_obey(state, action))
    threats = state.bombs | state.aliens
    state, invaded = _march(state)
    threats = threats | state.aliens
    hit = jnp.any(threats & _cannon(state.x))
    state = _drop_bomb(state)
    state, kills = _strike(state)
    return _renew_wave(_count_down(state), ramping), kills.astype(jnp.float32), hit | invaded


def observe(state: State) -> Any:
    """The board as the agent sees it: (10, 10, 6) bool."""
    channels = (
        _cannon(state.x),
        state.aliens,
        state.aliens & ~state.rightward,
        state.aliens & state.rightward,
        state.shots,
        state.bombs,
    )
    return jnp.stack(channels, axis=-1)


def _obey(state: State, action: Any) -> State:
    fires = (action == FIRE) & (state.shot_timer == 0)
    dx = jnp.int32(action == RIGHT) - (action == LEFT)
    x = jnp.clip(state.x + dx, 0, SIZE - 1)
    return state._replace(
        x=x,
        shots=state.shots | (_cannon(x) & fires),
        shot_timer=jnp.where(fires, SHOT_INTERVAL, state.shot_timer),
    )


def _fly(state: State) -> State:
    return state._replace(
        shots=jnp.pad(state.shots[1:], ((0, 1), (0, 0))),
        bombs=jnp.pad(state.bombs[:-1], ((1, 0), (0, 0))),
    )


def _march(state: State) -> tuple[State, Any]:
    """When the timer is up: a column onwards or, from the edge, about turn and a row down; and whether it was too far.

    The fewer aliens are left, the sooner the next move comes. Those that leave the board come in again at the top.
    """
    due = state.march_timer == 0
    aliens = state.aliens
    ahead = jnp.where(state.rightward, aliens[:, -1], aliens[:, 0])
    turns = due & jnp.any(ahead)
    sideways = jnp.where(state.rightward, jnp.roll(aliens, 1, axis=1), jnp.roll(aliens, -1, axis=1))
    marched = jnp.where(turns, jnp.roll(aliens, 1, axis=0), sideways)
    pace = jnp.minimum(jnp.sum(aliens, dtype=jnp.int32), state.march_interval)
    moved = state._replace(
        aliens=jnp.where(due, marched, aliens),
        rightward=state.rightward ^ turns,
        march_timer=jnp.where(due, pace, state.march_timer),
    )
    return moved, turns & jnp.any(aliens[-1])


def _drop_bomb(state: State) -> State:
    """When the timer is up, the lowest alien of the nearest column drops a bomb; of two as near, the left one's."""
    due = state.bomb_timer == 0
    row, column = jnp.arange(SIZE)[:, None], jnp.arange(SIZE)
    lowest = jnp.max(jnp.where(state.aliens, row, -1), axis=0)
    distance = 2 * jnp.abs(column - state.x) + (column > state.x)
    distance = jnp.where(lowest >= 0, distance, 2 * SIZE)
    bomber = (distance == jnp.min(distance)) & (row == lowest)
    return state._replace(
        bombs=state.bombs | (bomber & due),
        bomb_timer=jnp.where(due, ALIEN_SHOT_INTERVAL, state.bomb_timer),
    )


def _strike(state: State) -> tuple[State, Any]:
    """Aliens and shots in the same cell are gone together."""
    struck = state.aliens & state.shots
    return state._replace(aliens=state.aliens & ~struck, shots=state.shots & ~struck), jnp.sum(struck, dtype=jnp.int32)


def _count_down(state: State) -> State:
    return state._replace(
        shot_timer=jnp.maximum(state.shot_timer - 1, 0),
        bomb_timer=state.bomb_timer - 1,
        march_timer=state.march_timer - 1,
    )


def _renew_wave(state: State, ramping: Any) -> State:
    """A new wave when the last alien is gone, under ramping a faster one; direction and timers go on as they were."""
    cleared = ~jnp.any(state.aliens)
    faster = cleared & ramping & (state.march_interval > FASTEST_MARCH)
    return state._replace(aliens=state.aliens | (_wave() & cleared), march_interval=state.march_interval - faster)


def _cannon(x: Any) -> Any:
    """The board with the player's cell true."""
    row, column = jnp.arange(SIZE)[:, None], jnp.arange(SIZE)
    return (row == SIZE - 1) & (column == x)


def _wave() -> Any:
    row, column = jnp.arange(SIZE)[:, None], jnp.arange(SIZE)
    return (row < 4) & (column >= 2) & (column < 8)
