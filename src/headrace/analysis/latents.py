"""Latents of a run over training: what `headrace latents` computes, writes beside the run, and reads back.

<run>/latents.json            numbers of every checkpoint (see `Latents`)
<run>/latents.safetensors     t-SNE coordinates, `tsne/STEP/PERPLEXITY`, and `episode`
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from headrace.analysis.representation import (
    Probe,
    Silence,
    centred,
    effective_rank,
    probes,
    require_tsne,
    silence,
    tsne,
)
from headrace.analysis.trajectory import LENGTH, SEED, Trajectory, trajectory
from headrace.errors import CheckpointDamaged, HeadraceError
from headrace.policy import Policy, layers_of
from headrace.runs import packs, safetensors_io, snapshots
from headrace.runs.files import write_atomically
from headrace.runs.folder import RunFolder
from headrace.runs.snapshots import Snapshot, module_norms
from headrace.training.run import Run, run_of

FORMAT = 1
NUMBERS, POINTS = "latents.json", "latents.safetensors"
PERPLEXITIES = (30.0, 50.0)


@dataclass(frozen=True)
class AtStep:
    """One checkpoint's latents on the fixed trajectory."""

    step: int
    effective_rank: float  # uncentred, as the paper's
    effective_rank_centred: float
    features: int  # length of a latent
    silence: dict[str, Silence]  # by layer: `encoder`, and `projection` where the checkpoint has it
    norms: dict[str, float]  # of the weights, by module
    probes: dict[str, Probe]


@dataclass(frozen=True)
class Latents:
    """All of a run's checkpoints, the earliest first."""

    env: str
    policy: str  # that made the trajectory
    observations: int
    steps: tuple[AtStep, ...]
    perplexities: tuple[float, ...]

    @property
    def last(self) -> AtStep:
        return self.steps[-1]


def saved_encoders(path: Path) -> tuple[list[Snapshot], list[str]]:
    """Every encoder that is kept of a run, and what could not be read.

    Where a full checkpoint is of the same step as a snapshot, it is taken for the two: it holds more.
    """
    found: dict[int, Snapshot] = {}
    notices = []
    for file in snapshots.listed(path):
        try:
            snapshot = snapshots.decode(packs.read(path, file.relative_to(path).as_posix()))
            found[snapshot.step] = snapshot
        except CheckpointDamaged as error:
            notices.append(f"{file.name} passed over: {error}")
    folder = RunFolder.read(path)
    if newest := folder.latest():
        found[newest.step] = Snapshot(newest.step, newest.arrays, module_norms(newest.arrays))
    return [found[step] for step in sorted(found)], notices + folder.notices


def analyse(
    path: str | Path,
    *,
    length: int = LENGTH,
    seed: int = SEED,
    perplexities: Sequence[float] = PERPLEXITIES,
    say: Callable[[str], None] = lambda words: None,
) -> Latents:
    """Analyses every saved encoder of a run and writes the result beside it."""
    path = Path(path)
    if perplexities:
        require_tsne()
    run, encoders = _encoders(path, say)
    if pack := packs.holder(path):
        raise HeadraceError(f"it is in {pack}: `python experiments/pack.py --unpack {path} FOLDER` takes it out")
    say(f"{length:,} steps of {run.env.label}, uniformly random policy")
    seen = trajectory(run.env, length, seed)
    points: dict[str, np.ndarray] = {"episode": seen.episode.astype(np.int32)}
    steps = []
    for snapshot in encoders:
        latents = Policy(run.agent, snapshot.arrays).latents(seen.observations)
        steps.append(_at_step(run, seen, snapshot, latents))
        say(f"step {snapshot.step:,}: effective rank {steps[-1].effective_rank:.1f}")
        for perplexity in perplexities:
            say(f"step {snapshot.step:,}: t-SNE, perplexity {perplexity:g}")
            points[f"tsne/{snapshot.step}/{perplexity:g}"] = tsne(latents, perplexity)
    found = Latents(run.env.label, seen.policy, length, tuple(steps), tuple(perplexities))
    _write(path, found, points)
    return found


def _encoders(path: Path, say: Callable[[str], None]) -> tuple[Run, list[Snapshot]]:
    encoders, notices = saved_encoders(path)
    for notice in notices:
        say(notice)
    if not encoders:
        raise HeadraceError(f"{path} has no checkpoint and no snapshot: there are no latents to look at")
    return run_of(RunFolder.read(path).identity), encoders


def _at_step(run: Run, seen: Trajectory, snapshot: Snapshot, latents: np.ndarray) -> AtStep:
    if not np.isfinite(latents).all():
        raise HeadraceError(f"the encoder of step {snapshot.step:,} gives latents that are not finite")
    silent = {"encoder": silence(latents)}
    if layers_of("projection", snapshot.arrays):
        silent["projection"] = silence(Policy(run.agent, snapshot.arrays).hidden(latents))
    return AtStep(
        snapshot.step,
        effective_rank(latents),
        effective_rank(centred(latents)),
        latents.shape[1],
        silent,
        snapshot.norms,
        probes(latents, seen.observations, seen.state),
    )


def _write(path: Path, found: Latents, points: dict[str, np.ndarray]) -> None:
    text = json.dumps({"format": FORMAT, **_plain(found)}, indent=1)
    write_atomically(path / POINTS, safetensors_io.dumps(points, {}))
    write_atomically(path / NUMBERS, (text + "\n").encode())


def _plain(found: Latents) -> dict[str, Any]:
    plain = asdict(found)
    for step in plain["steps"]:
        step["silence"] = {layer: value._asdict() for layer, value in step["silence"].items()}
        step["probes"] = {name: probe._asdict() for name, probe in step["probes"].items()}
    return plain


def read_latents(path: str | Path) -> Latents | None:
    """What `analyse` wrote for this run; None where it has not been analysed or cannot be read."""
    try:
        facts = json.loads(packs.read(Path(path), NUMBERS))
        return _latents_of(facts) if facts.pop("format") == FORMAT else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _latents_of(facts: dict[str, Any]) -> Latents:
    steps = []
    for step in facts["steps"]:
        silent = {layer: Silence(**value) for layer, value in step["silence"].items()}
        read = {name: Probe(**probe) for name, probe in step["probes"].items()}
        steps.append(AtStep(**{**step, "silence": silent, "probes": read}))
    return Latents(**{**facts, "steps": tuple(steps), "perplexities": tuple(facts["perplexities"])})


def read_points(path: str | Path) -> dict[tuple[int, float], np.ndarray]:
    """The t-SNE coordinates of a run by step and perplexity; none where there are none."""
    try:
        arrays, _ = safetensors_io.loads(packs.read(Path(path), POINTS))
    except (OSError, CheckpointDamaged):
        return {}
    words = {name: name.split("/") for name in arrays if name.startswith("tsne/")}
    return {(int(step), float(perplexity)): arrays[name] for name, (_, step, perplexity) in words.items()}
