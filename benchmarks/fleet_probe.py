"""How long one step of a whole fleet takes on this machine, and how many kernels it is made of."""

from __future__ import annotations

import argparse
import collections
import json
import re
import time

import jax
import jax.numpy as jnp

from headrace.agents import agent_named
from headrace.engines.reference import agent, networks, td
from headrace.engines.reference.fleet import Fleet
from headrace.envs.minatar import GAMES
from headrace.envs.registry import make


def build(variant: str, streams: int, games: tuple[str, ...]) -> Fleet:
    per = max(1, streams // len(games))
    envs = [make(f"minatar/{g}", "compiled") for g in games for _ in range(per)]
    seeds = [s for _ in games for s in range(per)]
    return Fleet([agent_named(variant)] * len(envs), envs, seeds, 1_000_000)


def kernels(fleet: Fleet) -> dict[str, int]:
    """Operations of the loop's body that start a kernel, by kind, as the compiler left them."""
    text = fleet._run.lower(fleet.settings, *fleet._begun(), 500).compile().as_text()
    bodies = re.split(r"\n(?=%|ENTRY)", text)
    body = max((b for b in bodies if "region" in b.split("(")[0] or "body" in b.split("(")[0]), key=len, default="")
    ops = re.findall(r"= \S+ ([a-z][\w-]*)\(", body)
    return dict(collections.Counter(ops).most_common(14))


def suppose(what: str) -> None:
    """Changes the program for the sake of measuring; results are no longer right where something is left out."""
    if "ln" in what:
        networks.layer_norm = one_pass_layer_norm
    if "nometrics" in what:
        td._metrics = lambda delta, q, gradient, updates: {"td_error": jnp.abs(delta), "q": q}
        td.overshoot = lambda *_: jnp.float32(0)
        agent.aux_metrics = lambda *_: {}


def one_pass_layer_norm(x: jax.Array) -> jax.Array:
    """Both moments in one pass, about a pivot so that nothing cancels."""
    centred = x - jax.lax.stop_gradient(x.reshape(-1)[0])
    mean, square = jnp.mean(centred), jnp.mean(centred * centred)
    return (centred - mean) * jax.lax.rsqrt(jnp.maximum(square - mean * mean, 0) + networks.LAYER_NORM_EPS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variant", default="qrc+spr+orth")
    parser.add_argument("--streams", type=int, default=45)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--trace", default="")
    parser.add_argument("--games", default=",".join(GAMES))
    parser.add_argument("--what-if", default="", help="static, ln, nometrics: leave something out to see what it costs")
    words = parser.parse_args()
    suppose(words.what_if)
    fleet = build(words.variant, words.streams, tuple(words.games.split(",")))
    if "static" in words.what_if:
        fleet._run = jax.jit(fleet._advance_all, donate_argnums=(1, 2), static_argnums=(3,))
    t0 = time.perf_counter()
    fleet.begin()
    jax.block_until_ready(fleet._states)
    t1 = time.perf_counter()
    fleet.run(500)
    t2 = time.perf_counter()
    times = []
    for _ in range(max(1, words.steps // 500)):
        t = time.perf_counter()
        fleet.run(500)
        times.append((time.perf_counter() - t) / 500 * 1e6)
    times.sort()
    micro = times[len(times) // 2]
    if words.trace:
        with jax.profiler.trace(words.trace):
            fleet.run(20)
    result = {
        "variant": words.variant,
        "what_if": words.what_if,
        "games": words.games,
        "streams": fleet.size,
        "device": str(jax.devices()[0]),
        "begin_s": round(t1 - t0, 1),
        "compile_s": round(t2 - t1, 1),
        "microseconds_per_step": round(micro, 1),
        "stream_steps_per_s": round(fleet.size / micro * 1e6),
        "spread": [round(times[0]), round(times[-1])],
        "ops": kernels(fleet),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
