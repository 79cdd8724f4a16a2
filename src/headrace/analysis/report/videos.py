"""Videos of agents, played in a process of their own: the report itself needs no engine."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from headrace.analysis.records import Record
from headrace.analysis.report.html import Html, tag
from headrace.analysis.scores import agent_order
from headrace.errors import HeadraceError
from headrace.runs import checkpoints
from headrace.runs.folder import CHECKPOINTS

PATIENCE = 300  # seconds for one video
STEPS = 500  # of the episode: a video of several minutes is not watched


def playable(record: Record) -> bool:
    """Whether the run kept a checkpoint that may be played."""
    return bool(checkpoints.newest_first(record.path / CHECKPOINTS))


def play(record: Record) -> bytes:
    """One episode with the run's newest checkpoint, as an animated GIF."""
    with tempfile.TemporaryDirectory(prefix="headrace-video-") as folder:
        out = Path(folder) / "video.gif"
        words = ["play", str(record.path), "--out", str(out), "--max-steps", str(STEPS)]
        environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
        try:
            done = subprocess.run(
                [sys.executable, "-m", "headrace", *words], env=environment, capture_output=True, text=True,
                timeout=PATIENCE, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise HeadraceError(f"{record.name} took more than {PATIENCE} s to play") from error
        if done.returncode:
            raise HeadraceError(f"{record.name} cannot be played: {done.stderr.strip().removeprefix('headrace: ')}")
        return out.read_bytes()


def chosen(records: Sequence[Record], count: int) -> list[Record]:
    """`count` playable runs: the best seed of every agent in every environment first, then the second best."""
    best_first = sorted(
        (r for r in records if playable(r)), key=lambda r: -(r.score.mean if r.score else float("-inf"))
    )
    place: Counter[tuple[str, str, int]] = Counter()
    ranked = []
    for record in best_first:
        place[record.agent, record.env, record.steps] += 1
        ranked.append((place[record.agent, record.env, record.steps], agent_order(record.agent), record.env, record))
    return [record for *_, record in sorted(ranked, key=lambda r: r[:3])[:count]]


def shown(record: Record, key: str, made: Mapping[str, bytes]) -> Html:
    """On a page that does not change: the video, or how to make one."""
    if key in made:
        about = "the agent playing one episode with its newest checkpoint"
        return tag("p", tag("img", class_="picture video", src=address(key), alt=about))
    if not playable(record):
        return tag("p", "No video: the run's folder has no checkpoint.", class_="note")
    command = tag("code", f"headrace play '{record.path}' --out video.gif")
    return tag("p", "No video was asked for. ", command, " makes one.", class_="note")


def offered(record: Record, key: str) -> Html:
    """On a live page: a button that has it played."""
    if not playable(record):
        return tag("p", "No video: the run has no checkpoint yet.", class_="note")
    return tag("p", tag("button", "Play one episode", type="button", class_="small", data_video=address(key)))


def address(key: str) -> str:
    return f"videos/{key}.gif"
