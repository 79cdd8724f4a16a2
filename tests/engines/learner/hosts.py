"""The learner as other compilers, instruction sets and processors have it: a program behind a pipe, `host.c`.

`python -m tests.engines.learner.hosts riscv64 --suites minatar` holds it to the definition by the rules of
docs/parity.md.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from headrace.agents import Agent
from headrace.engines.learner.block import TYPES
from headrace.engines.learner.description import Array, describe
from headrace.envs.base import EnvSpec, TimeStep
from headrace.learner import SOURCES
from tests.engines.learner.parity import compare_steps
from tests.engines.learner.rows import print_rows, words_for
from tests.engines.learner.support import STEPS

WARNINGS = ("-std=c11", "-Wall", "-Wextra", "-Werror")
USUAL = ("-O3", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math")


@dataclass(frozen=True)
class Host:
    compiler: str
    before: tuple[str, ...] = ()  # the emulator that runs its programs
    flags: tuple[str, ...] = USUAL


HOSTS = {
    "gcc": Host("gcc"),
    "clang": Host("clang"),
    "aarch64": Host("aarch64-linux-gnu-gcc", ("qemu-aarch64",), (*USUAL, "-static")),
    "armhf": Host("arm-linux-gnueabihf-gcc", ("qemu-arm",), (*USUAL, "-static", "-mfpu=vfpv3-d16")),  # without NEON
    "riscv64": Host("riscv64-linux-gnu-gcc", ("qemu-riscv64",), (*USUAL, "-static")),
}


def missing(host: Host) -> str:
    """What of it this machine lacks."""
    needed = [name for name in (host.compiler, *host.before) if not shutil.which(name)]
    return ", ".join(f"no {name}" for name in needed)


@contextmanager
def hosted(host: Host) -> Iterator[Callable[..., Piped]]:
    """The learner compiled for it: what makes one of an agent."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as opened:
        program = str(Path(folder) / "host")
        sources = [str(SOURCES / "learner.c"), str(Path(__file__).with_name("host.c"))]
        command = [host.compiler, *WARNINGS, *host.flags, f"-I{SOURCES}", "-o", program, *sources, "-lm"]
        done = subprocess.run(command, capture_output=True, text=True)
        assert not done.returncode, done.stderr
        yield lambda *words, **named: opened.enter_context(closing(Piped([*host.before, program], *words, **named)))


class Piped:
    """A learner in such a program, with the names of the engine's methods."""

    def __init__(self, command: list[str], agent: Agent, spec: EnvSpec, *, seed: int = 0, steps: int = STEPS) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=1 << 20)
        self._say("i", bytes(describe(agent, spec, steps)), np.uint64(seed))
        count = int(self._heard(np.dtype(np.int32), ()))
        self._arrays = [Array.from_buffer_copy(self._read(ctypes.sizeof(Array))) for _ in range(count)]

    def begin(self, obs: np.ndarray) -> None:
        self._say("b", np.asarray(obs, np.float32))

    def learn(self, step: TimeStep) -> None:
        flags = 1 * bool(step.terminated) + 2 * bool(step.truncated) + 4 * bool(step.last)
        frames = (np.asarray(frame, np.float32) for frame in (step.successor, step.obs))
        self._say("l", *frames, np.float32(step.reward), np.int32(flags))
        assert self._heard(np.dtype(np.int32), ()) == 0

    def save(self) -> dict[str, np.ndarray]:
        self._say("s")
        return {
            array.name.decode(): self._heard(TYPES[array.type], tuple(array.shape[: array.dimensions]))
            for array in self._arrays
        }

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        self._say("p", *(arrays[array.name.decode()] for array in self._arrays))

    def close(self) -> None:
        """Its program must have found nothing wrong, memory that was never given back among that."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.stdout.close()
        assert self._process.wait() == 0

    def _say(self, letter: str, *values: Any) -> None:
        assert self._process.stdin
        for value in (letter.encode(), *values):
            self._process.stdin.write(value if isinstance(value, bytes) else np.ascontiguousarray(value).tobytes())
        self._process.stdin.flush()

    def _read(self, size: int) -> bytes:
        assert self._process.stdout
        found = self._process.stdout.read(size)
        assert len(found) == size, f"the program ended: {self._process.wait()}"
        return found

    def _heard(self, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
        size = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
        return np.frombuffer(self._read(size), dtype).reshape(shape)


def main() -> None:
    words = words_for(__doc__)
    words.add_argument("hosts", nargs="+", choices=list(HOSTS))
    words.add_argument("--steps", type=int, default=40)
    said = words.parse_args()
    for name in said.hosts:
        if lack := missing(HOSTS[name]):
            print(f"{name}: skipped, {lack}")
            continue
        with hosted(HOSTS[name]) as learner:

            def cells(_: str, agent: Agent, spec: EnvSpec, learner: Any = learner, name: str = name) -> list[str]:
                found = compare_steps(agent, spec, said.steps, learner=learner)
                return [name, f"{found.worst:.1e}", found.array.removeprefix("stream/agent/"), str(found.edges)]

            print_rows(said, ("host", "largest error", "in", "edges"), cells)


if __name__ == "__main__":
    main()
