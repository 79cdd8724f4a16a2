"""Steps a compiled game and the original side by side, with the same random outcomes, and compares every step.

A game's test supplies two small functions:

`answers(draws, game)` gives an object that stands in for the original's random generator during one `act` or `reset`
and answers its calls from `draws`, the compiled game's outcomes for that step; `game` is the original game object as it
is before the call, for where the calls depend on it. `Answers` serves where the calls come in a known order.

`policy(game, rng)` gives the next action, 0..5, from the original game object.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from minatar.environment import Environment

from headrace.envs.minatar.game import CompiledMinAtar


class Answers:
    """Answers the calls of each method in turn; an answer may be a function of the call's arguments."""

    def __init__(self, rand: Iterable[Any] = (), randint: Iterable[Any] = ()) -> None:
        self._rand, self._randint = iter(rand), iter(randint)

    def rand(self, *args: Any) -> Any:
        return _answer(next(self._rand), args, {})

    def randint(self, *args: Any, **kwargs: Any) -> Any:
        return _answer(next(self._randint), args, kwargs)


def _answer(answer: Any, args: tuple, kwargs: dict) -> Any:
    return answer(*args, **kwargs) if callable(answer) else answer


def below(flag: Any) -> float:
    """A number that is below any probability between 0 and 1 exactly where the flag is true."""
    return 0.0 if flag else 1.0


def wander(game: Any, rng: np.random.Generator) -> int:
    """Any of the six actions, also those that mean nothing to the game."""
    return int(rng.integers(6))


class Record(NamedTuple):
    """What each step of a run showed, on an axis of steps."""

    obs: Any
    successor: Any
    reward: Any
    terminated: Any


class Played(NamedTuple):
    """What a comparison covered."""

    steps: int
    episodes: int  # ended
    reward: float  # summed over all steps
    ramps: int  # times the difficulty rose
    repeats: int  # sticky actions
    events: Counter  # steps on which each thing named by `watch` was seen


def compare(
    name: str,
    answers: Callable[[Any, Any], Any],
    policy: Callable[[Any, np.random.Generator], int] = wander,
    *,
    steps: int = 20_000,
    seed: int = 0,
    sticky: float = 0.0,
    ramping: bool = True,
    watch: Callable[[Any], Iterable[str]] = lambda game: (),
    chunk: int = 4_000,
) -> Played:
    """Plays `steps` steps on both sides and asserts that observations, rewards and ends are the same at each.

    `watch(game)` names what the original game object shows after a step, before a reset; the names are counted.
    """
    original = Environment(name, sticky, ramping)
    first_key, key = jax.random.split(jax.random.key(seed))
    rng = np.random.default_rng(seed)
    state, obs, first_draws = _start_compiled(name, first_key)
    original.env.random = answers(_host(first_draws), original.env)
    original.reset()
    np.testing.assert_array_equal(np.asarray(obs), original.state(), err_msg="the first observation")

    total = Played(0, 0, 0.0, 0, 0, Counter())
    for start in range(0, steps, chunk):
        keys = jax.random.split(jax.random.fold_in(key, start), min(chunk, steps - start))
        draws = _draw(name, sticky, keys)
        actions, theirs, played = _play_original(original, answers, policy, rng, _host(draws), watch)
        state, ours = _play_compiled(name, ramping, state, actions, draws)
        _assert_same(ours, theirs, start)
        total = _sum(total, played)
    print(f"{name}: {total}")  # what a comparison covered; pytest -rP shows it
    return total


# The settings are traced below, so that one compilation of a game serves every comparison.


@partial(jax.jit, static_argnums=0)
def _start_compiled(name: str, key: Any) -> tuple[Any, Any, Any]:
    env = CompiledMinAtar(name)
    return *env.init(key), env.rules.draw(key)


@partial(jax.jit, static_argnums=0)
def _draw(name: str, sticky: Any, keys: Any) -> Any:
    env = CompiledMinAtar(name)
    env.sticky = sticky
    return jax.vmap(env.draw)(keys)


@partial(jax.jit, static_argnums=0)
def _play_compiled(name: str, ramping: Any, state: Any, actions: Any, draws: Any) -> tuple[Any, Record]:
    env = CompiledMinAtar(name)
    env.ramping = ramping

    def one(state: Any, inputs: Any) -> tuple[Any, Record]:
        state, seen = env.take(state, *inputs)
        return state, Record(seen.obs.astype(bool), seen.successor.astype(bool), seen.reward, seen.terminated)

    return jax.lax.scan(one, state, (actions, draws))


def _play_original(
    original: Any, answers: Any, policy: Any, rng: np.random.Generator, draws: Any, watch: Any
) -> tuple[np.ndarray, Record, Played]:
    steps, game = len(draws.repeat), original.env
    shape = (steps, *original.state_shape())
    seen = Record(np.zeros(shape, bool), np.zeros(shape, bool), np.zeros(steps, np.float32), np.zeros(steps, bool))
    actions, ramps = np.zeros(steps, np.int32), 0
    events: Counter = Counter()
    for t in range(steps):
        actions[t] = policy(game, rng)
        original.random = Answers(rand=(below(draws.repeat[t]),))
        game.random = answers(_at(draws.game, t), game)
        level = game.difficulty_ramp() or 0
        seen.reward[t], seen.terminated[t] = original.act(actions[t])
        ramps += (game.difficulty_ramp() or 0) - level
        events.update(watch(game))
        seen.successor[t] = seen.obs[t] = original.state()
        if seen.terminated[t]:
            game.random = answers(_at(draws.restart, t), game)
            original.reset()
            seen.obs[t] = original.state()
    ends = int(seen.terminated.sum())
    return actions, seen, Played(steps, ends, float(seen.reward.sum()), ramps, int(draws.repeat.sum()), events)


def _sum(a: Any, b: Any) -> Played:
    return Played(*(x + y for x, y in zip(a, b, strict=True)))


def _assert_same(ours: Record, theirs: Record, start: int) -> None:
    for field, mine, original in zip(Record._fields, ours, theirs, strict=True):
        differs = (np.asarray(mine) != original).reshape(len(original), -1).any(axis=1)
        assert not differs.any(), f"{field} differs on {differs.sum()} steps, first on {start + differs.argmax()}"


def _host(draws: Any) -> Any:
    return jax.tree.map(np.asarray, draws)


def _at(draws: Any, t: int) -> Any:
    return type(draws)(*(field[t] for field in draws))
