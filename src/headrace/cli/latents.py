"""The command `headrace latents`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headrace.cli.output import notify, put
from headrace.errors import BadSetting, HeadraceError
from headrace.runs import packs

ABOUT = "what a run's encoder has learnt: effective rank, silent units, probes and t-SNE over training"


def add_words(parser: argparse.ArgumentParser, number: Callable[[str], float]) -> None:
    add = parser.add_argument
    add("runs", metavar="RUN", nargs="+", help="a run's folder, or one that holds runs")
    add("--steps", type=number, default=5000, help="length of the fixed trajectory (5000)")
    add("--seed", type=number, default=2026, help="of the trajectory (2026); only runs with equal ones are compared")
    add("--tsne", default="30,50", metavar="PERPLEXITIES", help="of t-SNE, such as 30,50; none: no t-SNE (30,50)")
    add("--again", action="store_true", help="also runs that have been analysed at their last step before")
    add("--quiet", action="store_true", help="say nothing while computing")


def run(words: argparse.Namespace) -> int:
    """0 where every run could be analysed, 1 where some could not."""
    from headrace.analysis.latents import NUMBERS

    perplexities = perplexities_of(words.tsne)
    results, failed = [], 0
    for path in _runs(words.runs):
        try:
            results.append((path, _one(path, words, perplexities)))
        except HeadraceError as error:
            failed += 1
            notify([f"{path}: {error}"])
    shown = [{"run": str(path), **json.loads(packs.read(path, NUMBERS))} for path, _ in results]
    if words.json or results:
        put(words, shown, "\n\n".join(text(path, found) for path, found in results))
    return 1 if failed else 0


def perplexities_of(word: str) -> tuple[float, ...]:
    if word == "none":
        return ()
    try:
        found = tuple(float(part) for part in word.split(","))
    except ValueError:
        found = ()
    if not found or not all(1 <= perplexity <= 1000 for perplexity in found):
        raise BadSetting(f"--tsne takes perplexities from 1 to 1000 such as 30,50, or none, got {word!r}")
    return found


def _runs(words: list[str]) -> list[Path]:
    from headrace.analysis.records import find_runs

    found = find_runs(words)
    notify(f"{problem.path}: {problem.why}" for problem in found.problems)
    if not found.records:
        raise HeadraceError(f"no run was found in {', '.join(words)}")
    return [record.path for record in found.records]


def _one(path: Path, words: argparse.Namespace, perplexities: tuple[float, ...]) -> Any:
    from headrace.analysis.latents import analyse, read_latents, saved_encoders
    from headrace.analysis.trajectory import policy_words
    from headrace.training.run import whole

    length, seed = whole("steps", words.steps, 2, 10_000_000), whole("seed", words.seed, 0)
    before = None if words.again else read_latents(path)
    wanted = (length, policy_words(seed))
    if before and (before.observations, before.policy) == wanted and set(perplexities) <= set(before.perplexities):
        encoders, _ = saved_encoders(path)
        if packs.holder(path) or [e.step for e in encoders] == [s.step for s in before.steps]:
            return before
    say = (lambda said: None) if words.quiet else (lambda said: print(f"{path.name}: {said}", file=sys.stderr))
    return analyse(path, length=length, seed=seed, perplexities=perplexities, say=say)


def text(path: Path, found: Any) -> str:
    """A run's analysis as a reader of a terminal wants it."""
    lines = [f"{path}", f"{found.observations:,} observations of {found.env}, policy {found.policy}"]
    lines.append(
        f"{'step':>12} {'eff. rank':>10} {'centred':>10} {'of':>6} {'dead':>7} {'dormant':>8} {'encoder norm':>13}"
    )
    for at in found.steps:
        silent = at.silence["encoder"]
        norm = f"{at.norms['encoder']:.3f}" if "encoder" in at.norms else "?"
        lines.append(
            f"{at.step:>12,} {at.effective_rank:>10.1f} {at.effective_rank_centred:>10.1f} {at.features:>6} "
            f"{silent.dead:>7.1%} {silent.dormant:>8.1%} {norm:>13}"
        )
    for name, probe in sorted(found.last.probes.items()):
        kind = "held-out R2" if probe.kind == "r2" else "held-out accuracy"
        lines.append(
            f"{name:>24} {kind} {probe.latent:.3f} (observation {probe.observation:.3f}, chance {probe.chance:.3f})"
        )
    return "\n".join(lines)
