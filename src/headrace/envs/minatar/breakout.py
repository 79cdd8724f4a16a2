"""Breakout: keep the ball in play with the paddle, one point for each brick it breaks; difficulty does not ramp."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

CHANNELS = 4  # paddle, ball, trail, brick
ACTIONS = (0, 1, 3)

LEFT, RIGHT = 1, 3

_CELLS = np.arange(10, dtype=np.int32)
_BRICK_ROWS = np.arange(1, 4, dtype=np.int32)


class Draws(NamedTuple):
    from_left: jax.Array  # bool: the ball enters at the left wall


class State(NamedTuple):
    paddle: jax.Array
    ball: jax.Array  # row, column
    heading: jax.Array  # what a step adds to the ball's row and column, each -1 or 1
    trail: jax.Array  # where the ball was one step ago
    bricks: jax.Array  # bool (3, 10)
    struck: jax.Array  # bool: the last step met a brick; a brick met right after is passed through and stays


def draw(key: Any) -> Draws:
    return Draws(jax.random.bernoulli(key))


def reset(draws: Draws) -> State:
    ball = jnp.stack([jnp.int32(3), jnp.where(draws.from_left, 0, 9)])
    heading = jnp.stack([jnp.int32(1), jnp.where(draws.from_left, 1, -1)])
    return State(jnp.int32(4), ball, heading, ball, jnp.ones((3, 10), bool), jnp.bool_(False))


def step(state: State, action: Any, draws: Draws, ramping: Any) -> tuple[State, jax.Array, jax.Array]:
    """The ball's next cell decides what happens: above the board, a brick, the paddle's row, or nothing there."""
    paddle = jnp.clip(state.paddle + (action == RIGHT) - (action == LEFT), 0, 9)
    row, column, heading_x = _fly(state)
    target = _brick_at(row, column)

    above = row < 0
    on_brick = (state.bricks & target).any()
    breaks = on_brick & ~state.struck
    at_floor = row == 9
    under_ball = at_floor & (state.ball[1] == paddle)
    at_corner = at_floor & (column == paddle) & ~under_ball
    saved = under_ball | at_corner

    # Only at the floor are broken walls rebuilt, so that bricks never appear around the ball.
    bricks = (state.bricks & ~(target & breaks)) | (at_floor & ~state.bricks.any())
    ball = jnp.stack([jnp.where(breaks | saved, state.ball[0], jnp.maximum(row, 0)), column])
    heading = jnp.stack(
        [
            jnp.where(above | breaks | saved, -state.heading[0], state.heading[0]),
            jnp.where(at_corner, -heading_x, heading_x),
        ]
    )
    reached = State(paddle, ball, heading, state.ball, bricks, on_brick)
    return reached, breaks.astype(jnp.float32), at_floor & ~saved


def observe(state: State) -> jax.Array:
    paddle = _dot(jnp.int32(9), state.paddle)
    bricks = jnp.pad(state.bricks, ((1, 6), (0, 0)))
    return jnp.stack([paddle, _dot(*state.ball), _dot(*state.trail), bricks], axis=-1)


def _fly(state: State) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The row and column the ball heads for, and its sideways heading after it met a side wall, if it did."""
    row = state.ball[0] + state.heading[0]
    column = state.ball[1] + state.heading[1]
    kept = jnp.clip(column, 0, 9)
    return row, kept, jnp.where(kept == column, state.heading[1], -state.heading[1])


def _brick_at(row: jax.Array, column: jax.Array) -> jax.Array:
    return (_BRICK_ROWS[:, None] == row) & (column == _CELLS)


def _dot(row: jax.Array, column: jax.Array) -> jax.Array:
    return (_CELLS[:, None] == row) & (column == _CELLS)
