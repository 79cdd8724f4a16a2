"""Environments so small that their values are known: what a rule learns can be compared with what it should.

Each asks one question of a rule. Their states are seen one-hot; everything but the first state is fixed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from headrace.envs.base import EnvSpec, TimeStep
from headrace.part import Part

ON, TERMINATED, TRUNCATED = range(3)  # what an action leads to: another step, the end, or the end of patience
CORRIDOR = 20  # states


class Move(NamedTuple):
    """What an action leads to."""

    to: int  # state
    reward: float = 0.0
    end: int = ON


@dataclass(frozen=True)
class Puzzle:
    moves: tuple[tuple[Move, ...], ...]  # by state and action
    starts: tuple[int, ...]  # an episode begins in one of these
    about: str

    def q(self, gamma: float, eps: float = 0.0) -> np.ndarray:
        """The values, by state and action, of taking any action with probability eps and else the best one."""
        q = np.zeros((len(self.moves), len(self.moves[0])))
        for _ in range(10_000):
            v = (1 - eps) * q.max(axis=1) + eps * q.mean(axis=1)
            q = np.array([[m.reward + gamma * (m.end != TERMINATED) * v[m.to] for m in row] for row in self.moves])
        return q


PUZZLES = {
    "one_step": Puzzle(
        ((Move(0, 1.0, TERMINATED),) * 2,), (0,), "one step, one reward: is it learnt at all?"
    ),
    "two_states": Puzzle(
        ((Move(1),) * 2, (Move(1, 1.0, TERMINATED),) * 2), (0,), "does the value of the second reach the first?"
    ),
    "delayed": Puzzle(
        (
            (Move(1), Move(2)),
            (Move(3),) * 2,
            (Move(4),) * 2,
            (Move(3, 1.0, TERMINATED),) * 2,
            (Move(4, -1.0, TERMINATED),) * 2,
        ),
        (0,),
        "the first action decides a reward two steps later: is it credited?",
    ),
    "action": Puzzle(
        ((Move(0, 1.0, TERMINATED), Move(0, -1.0, TERMINATED)),), (0,), "do values depend on the action?"
    ),
    "ends": Puzzle(
        ((Move(0, 1.0, TERMINATED),) * 2, (Move(1, 1.0, TRUNCATED),) * 2),
        (0, 1),
        "both end after a step, one terminated and one truncated: does only the latter go on in value?",
    ),
    "corridor": Puzzle(
        tuple(
            (Move(i + 1) if i + 1 < CORRIDOR else Move(i, 1.0, TERMINATED),) * 2 for i in range(CORRIDOR)
        ),
        (0,),
        "a reward far away: do traces carry it back?",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class ProbeRules(Part):
    """There is nothing to change."""


class State(NamedTuple):
    at: Any


class Probe:
    """A puzzle as a compiled environment."""

    def __init__(self, name: str) -> None:
        if name not in PUZZLES:
            raise ValueError(f"unknown probe {name!r}; the probes are {', '.join(PUZZLES)}")
        self.puzzle = PUZZLES[name]
        moves = self.puzzle.moves
        actions = tuple(str(action) for action in range(len(moves[0])))
        self.spec = EnvSpec(f"probe/{name}", (len(moves),), actions, low=0, high=1)
        self._to = np.array([[move.to for move in row] for row in moves], np.int32)
        self._reward = np.array([[move.reward for move in row] for row in moves], np.float32)
        self._end = np.array([[move.end for move in row] for row in moves], np.int32)

    def init(self, key: Any) -> tuple[State, Any]:
        at = self._start(key)
        return State(at), self._seen(at)

    def step(self, state: State, action: Any, key: Any) -> tuple[State, TimeStep]:
        import jax.numpy as jnp

        here = (state.at, action)
        reached, end = jnp.asarray(self._to)[here], jnp.asarray(self._end)[here]
        after = jnp.where(end == ON, reached, self._start(key))
        seen = TimeStep(
            obs=self._seen(after),
            successor=self._seen(reached),
            reward=jnp.asarray(self._reward)[here],
            terminated=end == TERMINATED,
            truncated=end == TRUNCATED,
            last=end != ON,
        )
        return State(after), seen

    def render(self, state: State) -> np.ndarray:
        """One bright square in a row of dark ones."""
        row = np.eye(len(self.puzzle.moves), dtype=np.uint8)[int(state.at)] * 200 + 30
        return np.broadcast_to(row[None, :, None], (1, row.size, 3)).repeat(16, axis=0).repeat(16, axis=1)

    def _start(self, key: Any) -> Any:
        import jax

        return jax.random.choice(key, np.array(self.puzzle.starts, np.int32))

    def _seen(self, at: Any) -> Any:
        import jax

        return jax.nn.one_hot(at, len(self.puzzle.moves), dtype=np.float32)
