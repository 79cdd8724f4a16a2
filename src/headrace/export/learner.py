"""A learner that needs nothing but a C compiler: the library's sources, the run's state, a program around them."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator
from pathlib import Path
from string import Template

import numpy as np

from headrace.agents import name_of
from headrace.engines.learner.block import Block
from headrace.engines.learner.description import describe
from headrace.engines.learner.engine import supports
from headrace.errors import CheckpointDamaged, HeadraceError
from headrace.export.policy import Saved
from headrace.learner import SOURCES
from headrace.runs.manifest import identity_hash
from headrace.training.evaluation import require_learner
from headrace.training.run import Run, require_engine

FILES = Path(__file__).parent / "learner_files"
TEMPLATES = ("README.md", "agent.h")
FOR_PYTHON = ("library.c", "random.c", "screen.c")  # what only a program that is not written in C needs
MAGIC, FORMAT = b"hrst", 1  # of state.bin; FORMAT is learner.h's
EXACT = (
    "On the machine that the run was trained on, with the compiler that headrace's own learner was built with, every\n"
    "later step is equal to the bit to those that `headrace train` would take. Other compilers, processors and widths\n"
    "of vectors round differently, which learning amplifies."
)
ROUNDED = (
    "The run was trained by headrace's {engine} engine. This learner goes on from the same state; it rounds\n"
    "differently, which learning amplifies."
)


def files(saved: Saved) -> dict[str, bytes]:
    """The exported folder: bytes by name."""
    require_engine("learner")
    if why := supports(saved.run.agent, saved.spec.observation_shape):
        raise HeadraceError(f"{name_of(saved.run.agent)} cannot be exported as a learner in C: {why}")
    require_learner(saved.run, saved.arrays)
    block = Block(saved.run.agent, saved.spec, seed=saved.run.seed, steps=saved.run.steps)
    try:
        block.restore(saved.arrays)
    except CheckpointDamaged as error:
        raise HeadraceError(f"the state of this run does not fit the learner in C: {error}") from error
    state = state_bytes(saved.run, block.save().values())
    words = _words(saved, block, len(state))
    written = {path.name: path.read_bytes() for path in sorted(FILES.iterdir())}
    for name in TEMPLATES:
        written[name] = Template(written[name].decode()).substitute(words).encode()
    library = (path for path in sorted(SOURCES.glob("*.[ch]")) if path.name not in FOR_PYTHON)
    return {**written, "state.bin": state, **{f"learner/{path.name}": path.read_bytes() for path in library}}


def state_bytes(run: Run, arrays: Iterable[np.ndarray]) -> bytes:
    """The arrays one after the other, behind a head: magic, format, run, bytes, checksum."""
    body = b"".join(array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes() for array in arrays)
    head = np.array([FORMAT, int(_hash(run), 16), len(body), checksum(body)], "<u4").tobytes()
    return MAGIC + head + body


def _hash(run: Run) -> str:
    return identity_hash(run.identity())[:8]


def checksum(data: bytes) -> int:
    """Fletcher's, over 32-bit words in two sums modulo 2^32: quick here and in C."""
    words = np.frombuffer(data + b"\0" * (-len(data) % 4), "<u4").astype(np.uint32)
    sums = np.cumsum(words, dtype=np.uint32)
    return int((sums[-1] ^ np.sum(sums, dtype=np.uint32)) & 0xFFFFFFFF) if len(words) else 0


def _words(saved: Saved, block: Block, state: int) -> dict[str, object]:
    """What the templates say of this agent."""
    run, spec = saved.run, saved.spec
    exact = EXACT if run.engine == "learner" else ROUNDED.format(engine=run.engine)
    frame = int(np.prod(spec.frame_shape))
    names = ", ".join(f"{i} {name}" for i, name in enumerate(spec.actions))
    return {
        "title": saved.title, "run": run.name, "step": saved.step, "hash": _hash(run), "seed": run.seed, "exact": exact,
        "acts": f"acts by a vector of {spec.n_actions}, each number clipped to [-1, 1] and scaled to its bounds"
        if spec.box
        else f"has {spec.n_actions} actions: {names}",
        "frame": frame, "shape": " x ".join(map(str, spec.frame_shape)), "actions": spec.n_actions,
        "action_names": names, "box": int(spec.box), "state": state, "memory": block.size,
        "config": initialiser(describe(run.agent, spec, run.steps)),
    }  # fmt: skip


def initialiser(config: ctypes.Structure) -> str:
    """The struct in C, as lines of a macro."""
    return " \\\n".join(f"    {field}," for field in _fields(config))


def _fields(value: ctypes.Structure) -> Iterator[str]:
    """A struct's fields with their values; those that are 0 may be left out."""
    for name, *_ in value._fields_:
        if text := _text(getattr(value, name)):
            yield f".{name} = {text}"


def _text(value: object) -> str:
    if isinstance(value, ctypes.Structure):
        inner = ", ".join(_fields(value))
        return f"{{{inner}}}" if inner else ""
    if isinstance(value, ctypes.Array):
        inner = ", ".join(text for text in map(_text, value) if text)
        return f"{{{inner}}}" if inner else ""
    if isinstance(value, float):
        return f"{np.float32(value)!s}f" if value else ""
    return str(value) if value else ""
