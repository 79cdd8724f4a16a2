"""How many kernels a step of half a host fleet is on an H200, compiled on a machine that has none.

    python benchmarks/count_kernels.py [--variant qrc] [--streams 16] [--list]

With `--list` each kernel with its result, in the order in which they run. XLA compiles for a description of the card;
it cannot try which way to multiply is fastest, so the count on a card differs by a few. Needs ale-py, JAX's CUDA plugin
of the same version as JAX, and NVIDIA's compiler, on Linux: pip install --no-deps jax-cuda13-plugin jax-cuda13-pjrt
nvidia-cuda-nvcc nvidia-nvvm nvidia-cuda-crt.
"""

from __future__ import annotations

import argparse
import os
import re
import site
from pathlib import Path
from typing import Any

CARD = """
gpu_device_info {
  threads_per_block_limit: 1024 threads_per_warp: 32 threads_per_core_limit: 2048
  shared_memory_per_block: 49152 shared_memory_per_core: 233472 shared_memory_per_block_optin: 232448
  registers_per_core_limit: 65536 registers_per_block_limit: 65536
  core_count: 132 fpus_per_core: 128 block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  memory_bandwidth: 4800000000000 l2_cache_size: 62914560 clock_rate_ghz: 1.98 device_memory_size: 150000000000
  cuda_compute_capability { major: 9 minor: 0 }
}
platform_name: "CUDA" dnn_version_info { major: 9 minor: 8 } device_description_str: "NVIDIA H200"
"""
NO_KERNEL = "parameter", "get-tuple-element", "tuple", "bitcast", "constant"


def find_compiler() -> None:
    """Tells XLA where NVIDIA's compiler is; before JAX is imported."""
    found = [path for folder in site.getsitepackages() for path in Path(folder).glob("nvidia/cu*/bin/ptxas")]
    if not found:
        raise SystemExit("NVIDIA's compiler is not installed: the first lines of this file say how to install it")
    root = found[0].parent.parent
    os.environ["PATH"] = f"{root / 'bin'}{os.pathsep}{os.environ['PATH']}"
    os.environ["XLA_FLAGS"] = f"--xla_gpu_cuda_data_dir={root} --xla_gpu_autotune_level=0"
    os.environ["JAX_PLATFORMS"] = "cpu"


def compiled_text(variant: str, streams: int) -> str:
    """The compiled step, as XLA writes it."""
    import jax
    import numpy as np
    from jax.experimental import topologies
    from jax.sharding import SingleDeviceSharding

    from headrace.agents import agent_named
    from headrace.engines.jax import fleet, host_fleet
    from headrace.engines.jax.packed import pack
    from headrace.envs.registry import environment

    fleet.handicap = lambda: ""  # what would be used on a card
    spec = environment("atari/pong").host().spec
    games: Any = type("Games", (), {"specs": [spec] * streams, "parts": [slice(0, streams)], "faults": {}})
    made = host_fleet.HostFleet([agent_named(variant)] * streams, games, range(streams), 1_000_000)
    (half,), (group,) = made.halves, made.groups
    frames = np.zeros((streams, *spec.frame_shape), np.float32)
    state = jax.eval_shape(lambda s, f: pack(host_fleet._first(group.layout, s, f)), group.settings, frames)
    card = topologies.get_topology_desc("h200", "cuda", target_config=CARD, topology="1x1x1").devices[0]

    def there(tree: Any) -> Any:
        place = SingleDeviceSharding(card)
        return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place), tree)

    shown, outcome = frames.astype(spec.dtype), np.zeros((streams, 4), np.float32)
    step = jax.jit(host_fleet._advance, donate_argnums=2)
    return step.lower(*map(there, (half.settings, half.layout, state, shown, shown, outcome))).compile().as_text()


def kernels(text: str) -> list[str]:
    """Name and result of each, in order."""
    lines = text[text.index("\nENTRY") :].splitlines()[2:]
    found = [re.match(r"\s+(?:ROOT )?%?([\w.\-]+) = (.*?) (\w[\w\-]*)\(", line) for line in lines]
    return [f"{one[1]:45s} {one[2][:100]}" for one in found if one and one[3] not in NO_KERNEL]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variant", default="qrc")
    parser.add_argument("--streams", type=int, default=16)
    parser.add_argument("--list", action="store_true")
    words = parser.parse_args()
    find_compiler()
    found = kernels(compiled_text(words.variant, words.streams))
    if words.list:
        print(*found, sep="\n")
    print(f"{words.variant}, {words.streams} streams: {len(found)} kernels and copies")


if __name__ == "__main__":
    main()
