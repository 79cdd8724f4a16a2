"""A real Ray cluster of one machine, on loopback, with a key of its own; and what can be done to its processes."""

from __future__ import annotations

import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.sweep.support import holding

KEY = {
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": secrets.token_hex(32),
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",  # Ray's own is 15, which on a busy machine is hardly ever
}


class Cluster:
    def __init__(self, cores: int, port: int) -> None:
        self.cores, self.port, self.address = cores, port, f"127.0.0.1:{port}"
        self.start_head()

    def start_head(self) -> None:
        self.start("--head", f"--port={self.port}", "--include-dashboard=false", f"--num-cpus={self.cores}")

    def start(self, *words: str) -> None:
        """Starts a node; three times over, because Ray gives up after 30 seconds, which a busy machine may exceed."""
        ray = Path(sys.executable).with_name("ray")
        command = [str(ray), "start", "--node-ip-address=127.0.0.1", "--disable-usage-stats", *words]
        environment = {**os.environ, **KEY, **holding()}
        for _ in range(3):
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
            if done.returncode == 0:
                return
            if "--head" in words:
                self.kill_head()
        raise AssertionError(done.stdout + done.stderr)

    def processes(self, *kinds: str) -> list[int]:
        """Its own processes, by the port that is in all their words; those of such a kind, where kinds are given."""
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                words = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
                ours = re.search(rf"[:=]{self.port}\b", words) and "-m headrace" not in words
                if ours and any(kind in words for kind in kinds or [""]):
                    found.append(int(path.parent.name))
        return found

    def kill_head(self) -> None:
        """As if the machine had lost its power: everything of the cluster at once."""
        workers = [pid for raylet in self.processes("raylet/raylet") for pid in _below(raylet)]
        for pid in (*self.processes(), *workers):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _below(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in children.read_text().split()] if children.exists() else []


@contextmanager
def ray_cluster(cores: int = 2, port: int | None = None) -> Iterator[Cluster]:
    cluster = Cluster(cores, port or free_port())
    try:
        yield cluster
    finally:
        cluster.kill_head()
        time.sleep(0.2)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
