"""The footprint of an agent on a device: bytes of the C learner's memory and code, and the boards that it fits."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from headrace.agents import VARIANTS, Mlp, agent_named, fit
from headrace.bench.playback import SPECS
from headrace.engines.learner.block import Block
from headrace.envs.base import EnvSpec
from headrace.learner import SOURCES

MLP = Mlp((64,), 64)
NETWORKS: dict[str, tuple[EnvSpec, Mlp | None]] = {  # without a network of its own: that of the suite
    "MLP of 64": (EnvSpec("vector", (8,), ("a", "b", "c", "d")), MLP),
    "MinAtar's": (SPECS["minatar"], None),
    "Atari's": (SPECS["atari"], None),
}
BOARDS = {"512 kB board": 512 << 10, "1 MB board": 1 << 20, "Raspberry Pi": 512 << 20}  # bytes of RAM, smallest first
SPARE = 1 / 8  # of a board's RAM, for its stack and the rest of its program

COMPILERS = {  # of the code's size: the tool that tells it, then the compiler
    "this machine": ("size", "cc", "-Os"),
    "Cortex-M7": ("arm-none-eabi-size", "arm-none-eabi-gcc", "-Os", "-mcpu=cortex-m7", "-mthumb", "-mfpu=fpv5-sp-d16",
                  "-mfloat-abi=hard"),
}  # fmt: skip


def footprint() -> dict[str, Any]:
    """Each variant's memory with each network, and the size of the code that is the same for all of them."""
    agents = [_memory(name, network) for network in NETWORKS for name in VARIANTS]
    return {
        "boards": BOARDS,
        "code": {where: code_bytes(*command) for where, command in COMPILERS.items()},
        "agents": agents,
    }


def _memory(variant: str, network: str) -> dict[str, Any]:
    spec, own = NETWORKS[network]
    agent = agent_named(variant)
    block = Block(replace(agent, network=own or fit(agent.network, spec.observation_shape)), spec, seed=0, steps=1)
    parameters = sum(a.size for name, a in block.arrays.items() if "/params/" in name)
    saved = sum(array.nbytes for array in block.arrays.values())
    fits = [board for board, ram in BOARDS.items() if block.size <= ram * (1 - SPARE)]
    return {
        "network": network, "variant": variant, "parameters": parameters, "saved_bytes": saved,
        "memory_bytes": block.size, "smallest_board": fits[0] if fits else None,
    }  # fmt: skip


def code_bytes(size: str, compiler: str, *flags: str) -> int | None:
    """Code and constants of the learner, every variant in it; None without that compiler."""
    if not (shutil.which(size) and shutil.which(compiler)):
        return None
    with tempfile.TemporaryDirectory() as folder:
        compiled = str(Path(folder) / "learner.o")
        words = [compiler, "-std=c11", *flags, "-ffp-contract=fast", "-fno-math-errno", "-c", "-o", compiled]
        if subprocess.run([*words, str(SOURCES / "learner.c")], capture_output=True).returncode:
            return None
        told = subprocess.run([size, compiled], capture_output=True, text=True, check=True).stdout
    return int(told.splitlines()[1].split()[0])


def footprint_text(found: dict[str, Any]) -> str:
    columns = "{:10} {:15} {:>11} {:>10} {:>11}  {}"
    lines = [columns.format("network", "variant", "parameters", "saved, kB", "memory, kB", "smallest board")]
    for row in found["agents"]:
        sizes = f"{row['parameters']:,}", *(f"{row[key] / 1024:,.0f}" for key in ("saved_bytes", "memory_bytes"))
        lines.append(columns.format(row["network"], row["variant"], *sizes, row["smallest_board"] or "none"))
    lines += ["", "The memory is all that the learner uses; an eighth of a board's RAM is left for the rest."]
    for where, size in found["code"].items():
        lines.append(f"code, {where}: " + ("no compiler" if size is None else f"{size / 1024:,.0f} kB"))
    return "\n".join(lines)
