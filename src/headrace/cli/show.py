"""What there is to say of variants, environments and runs, as plain values and as text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headrace.agents import ABLATIONS, RECIPES, VARIANTS, name_of, parameter_count, to_json
from headrace.envs.registry import FAMILIES, environment, matching, names
from headrace.part import from_json
from headrace.runs import packs
from headrace.runs.checkpoints import final_arrays
from headrace.runs.folder import RunFolder
from headrace.runs.manifest import why_ended, why_not_exact
from headrace.training.run import run_of

EXAMPLE = ((10, 10, 4), 3)  # MinAtar Breakout's observation and number of actions


def variants() -> list[dict[str, Any]]:
    groups = (("variant", VARIANTS), ("ablation", ABLATIONS), ("recipe", RECIPES))
    return [
        {
            "name": name,
            "kind": kind,
            "parameters": parameter_count(agent, *EXAMPLE),
            "expression": repr(agent),
            "agent": to_json(agent),
        }
        for kind, found in groups
        for name, agent in found.items()
    ]


def envs(word: str = "") -> list[dict[str, Any]]:
    """The environments that a word or pattern names, or all that have a name.

    What an agent sees and does there is told of those asked for, and of those that take no package to find out.
    """
    rows = []
    for found in map(environment, matching(word) if word else names()):
        spec = found.spec() if word or found.at_hand else None
        rows.append(
            {
                "name": found.name,
                "observation": list(spec.observation_shape) if spec else None,
                "actions": list(spec.actions) if spec else None,
                "install": found.install or None,
                "rules": to_json(found.rules),
                "about": FAMILIES[found.name.partition("/")[0]].about,
            }
        )
    return rows


def run(path: str | Path) -> dict[str, Any]:
    """Everything of a run in brief: manifest, steps done, score, digest of its newest checkpoint."""
    folder = RunFolder.read(path)
    checkpoint, metrics, found = folder.latest(), folder.metrics(), folder.score()
    logged = int(metrics["step"][-1]) if len(metrics.get("step", ())) else 0
    digest = folder.digest(final_arrays(checkpoint.arrays)) if checkpoint else folder.manifest.get("digest")
    return {
        "path": str(path),
        "name": name_of(from_json(folder.identity["agent"])),
        "manifest": folder.manifest,
        "status": folder.status,
        "cause": why_ended(folder.manifest) or None,
        "why_not_exact": why_not_exact(folder.manifest) or None,
        "env": run_of(folder.identity).env.label,
        "steps_done": checkpoint.step if checkpoint else logged,
        "steps": folder.identity["steps"],
        "episodes": None if packs.holder(folder.path) else len(folder.episodes()["return"]),  # packs keep none
        "score": found.mean if found else None,
        "score_points": found.points if found else 0,
        "digest": digest,
        "notices": folder.notices,
    }
