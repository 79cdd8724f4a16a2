"""A fleet with environments of the host: how fast it is, where a step's time goes, and how busy each side is.

Each side is measured alone first: the environments without agents, the accelerator on one answer of theirs, and what
carries frames there and actions back. Then all together.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from headrace.agents import agent_named
from headrace.bench.playback import GAMES, STEPS, device, shared_out
from headrace.engines.jax.host_fleet import Clock, HostFleet
from headrace.envs.registry import FAMILIES, environment
from headrace.errors import BadSetting
from headrace.training.pool import Answer, Pool

WAITS = "dispatch", "device", "start", "environments"
BLOCK = 100  # steps between two looks at the clock
FEWEST_BLOCKS = 3
AT_ONCE = 20  # steps of a half that are waited for together
FEW = 5  # the same, where a step takes so long
NO_CARD = (
    "no accelerator was found: such a fleet shows here that everything works; to learn on a CPU, one run a core with "
    "the learner in C is faster (headrace sweep without --on fleet)"
)


def measure_host_fleet(suite: str, game: str | None, variant: str, streams: int, seconds: float) -> dict[str, Any]:
    games = _games(suite, game)
    if streams < len(games):
        raise BadSetting(f"{len(games)} games need as many streams at least, got {streams}: --game names one of them")
    envs = [environment(name) for name in shared_out(games, streams)]
    accelerated = jax.default_backend() != "cpu"
    pool = Pool(envs, spin=accelerated)
    fleet = HostFleet([agent_named(variant)] * streams, pool, list(range(streams)), STEPS)
    try:
        found: dict[str, Any] = {"on": "fleet", "suite": suite, "games": games, "variant": variant, "streams": streams}
        found |= {"device": device(), "halves": [half.rows.stop - half.rows.start for half in fleet.halves]}
        found |= {"workers": pool.workers, **_environments(pool, seconds / 4), **_began(fleet)}
        found |= {**_transfers(fleet), **_accelerator(fleet, seconds / 4)}
        return {**found, **_together(fleet, pool, found["card_ms"], seconds), "notes": [] if accelerated else [NO_CARD]}
    finally:
        fleet.close()


def _games(suite: str, game: str | None) -> list[str]:
    """The game that was named, or the one that the suite is measured by."""
    member = game or GAMES.get(suite)
    if member is None:
        example = f", such as {FAMILIES[suite].members[0]}" if FAMILIES[suite].members else ""
        raise BadSetting(f"--game must name an environment of {suite}{example}")
    return [environment(f"{suite}/{member}").name]


def _environments(pool: Pool, seconds: float) -> dict[str, float]:
    """All environments at once, taking random actions, a turn after the other as in a fleet."""
    random, counts = np.random.default_rng(0), np.array([spec.n_actions for spec in pool.specs])
    pool.reset(range(len(pool.specs)))
    turns = 0

    def some(rows: slice) -> np.ndarray:
        room = pool.shared.action[rows]
        return random.uniform(-1, 1, room.shape) if pool.specs[0].box else random.integers(0, counts[rows])

    def turn() -> None:
        nonlocal turns
        for part, rows in enumerate(pool.parts):
            if turns:
                pool.wait(part)
            pool.start(part, some(rows), turns + 1)
        turns += 1

    turn()
    began, busy, before = time.perf_counter(), pool.shared.busy.sum(), turns
    while time.perf_counter() - began < seconds:
        turn()
    for part in range(len(pool.parts)):
        pool.wait(part)
    took, steps = time.perf_counter() - began, (turns - before) * len(pool.specs)
    return {
        "environment_ms": float(pool.shared.busy.sum() - busy) / steps * 1e3,
        "environments_steps_per_s": steps / took,
    }


def _began(fleet: HostFleet) -> dict[str, float]:
    """Begins the streams, and compiles the program by their first steps."""
    began = time.perf_counter()
    fleet.begin()
    jax.block_until_ready([half.state for half in fleet.halves])
    begun = time.perf_counter()
    fleet.run(2)
    jax.block_until_ready([half.state for half in fleet.halves])
    return {"begin_s": begun - began, "compile_s": time.perf_counter() - begun}


def _transfers(fleet: HostFleet) -> dict[str, float]:
    """One half's frames there, and its actions back, each waited for."""
    answer = fleet.games.answer(0)
    there, back = [], []
    for _ in range(AT_ONCE):
        began = time.perf_counter()
        arrays = jax.block_until_ready([jax.device_put(x) for x in (answer.successor, answer.outcome)])
        there.append(time.perf_counter() - began)
        actions = jax.block_until_ready(arrays[1] + 1)
        began = time.perf_counter()
        np.asarray(actions)
        back.append(time.perf_counter() - began)
    return {"frames_there_ms": statistics.median(there) * 1e3, "actions_back_ms": statistics.median(back) * 1e3}


def _accelerator(fleet: HostFleet, seconds: float) -> dict[str, float]:
    """The first half learning from one answer again and again, and how long the host takes to ask for that."""
    half = fleet.halves[0]
    shown = fleet.games.answer(0)
    answer = Answer(shown.successor.copy(), shown.obs.copy(), shown.outcome.copy())
    half.learn(answer)
    jax.block_until_ready(half.state)
    each, asked, began = list[float](), list[float](), time.perf_counter()
    many = AT_ONCE if jax.default_backend() != "cpu" else FEW
    while not each or time.perf_counter() - began < seconds:
        start = time.perf_counter()
        for _ in range(many):
            before = time.perf_counter()
            half.learn(answer)
            asked.append(time.perf_counter() - before)
        jax.block_until_ready(half.state)
        each.append((time.perf_counter() - start) / many)
    return {
        "card_ms": statistics.median(each) * 1e3,
        "card_stream_steps_per_s": (half.rows.stop - half.rows.start) / statistics.median(each),
        "dispatch_ms": statistics.median(asked) * 1e3,
    }


def _together(fleet: HostFleet, pool: Pool, card_ms: float, seconds: float) -> dict[str, Any]:
    """The fleet as it trains, metrics read between blocks."""
    fleet.run(BLOCK if jax.default_backend() != "cpu" else FEW)
    block = BLOCK if jax.default_backend() != "cpu" else FEW
    busy = pool.shared.busy.sum()
    for half in fleet.halves:
        half.clock = Clock()
    began, ends = time.perf_counter(), [time.perf_counter()]
    while len(ends) <= FEWEST_BLOCKS or time.perf_counter() - began < seconds:
        left = fleet.run(block)
        left.episodes(), left.means(), left.trouble()
        ends.append(time.perf_counter())
    took, steps = ends[-1] - began, (len(ends) - 1) * block
    step_ms = took / steps * 1e3
    worked = float(pool.shared.busy.sum() - busy)
    return {
        "stream_steps_per_s": steps * fleet.size / took,
        "step_ms": step_ms,
        "spread_ms": _spread(ends, block),
        "card_busy": min(1.0, len(fleet.halves) * card_ms / step_ms),
        "environments_busy": worked / took / pool.workers,
        "environment_ms_together": worked / steps / fleet.size * 1e3,
        **{f"half_{what}": float(np.mean([vars(half.clock)[what] for half in fleet.halves])) / took for what in WAITS},
    }


def _spread(ends: Sequence[float], block: int) -> list[float]:
    each = np.diff(ends) / block * 1e3
    return [float(each.min()), float(each.max())]
