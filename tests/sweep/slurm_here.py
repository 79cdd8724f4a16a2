"""A real Slurm of one node, from Debian's packages, in a folder of its own: controller, node daemon and munge."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scancel", "scontrol")
PATIENCE = 30.0  # seconds in which a daemon must answer

CONFIGURATION = """
ClusterName=headrace
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={node}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CryptoType=crypto/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
ReturnToService=2
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=1,sched_interval=2,bf_interval=2,requeue_delay=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
KillWait=5
MinJobAge=300
NodeName={host} NodeAddr=127.0.0.1 CPUs={cores} CoresPerSocket={cores} RealMemory={memory} State=UNKNOWN
PartitionName=low Nodes=ALL Default=YES MaxTime=INFINITE PriorityTier=1 PreemptMode=REQUEUE GraceTime={grace}
PartitionName=high Nodes=ALL MaxTime=INFINITE PriorityTier=10 PreemptMode=OFF
"""


def what_is_missing() -> str:
    """Why there can be no Slurm here; empty where there can."""
    missing = [name for name in PROGRAMS if _path(name) is None]
    if missing:
        return f"not installed: {', '.join(missing)} (Debian: apt-get install slurm-wlm munge)"
    return "" if os.geteuid() == 0 else "its daemons have to be started by root"


def _path(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


@contextmanager
def slurm(folder: Path, cores: int = 2, grace: int = 20) -> Iterator[dict[str, str]]:
    """The environment in which Slurm's commands find it."""
    folder.chmod(0o755)
    for name in ("state", "spool"):
        (folder / name).mkdir()
    controller, node = _free_ports(2)
    configuration = folder / "slurm.conf"
    host = socket.gethostname().partition(".")[0]
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**21  # MiB: half of what there is
    facts = {"folder": folder, "host": host, "controller": controller, "node": node, "cores": cores, "grace": grace}
    configuration.write_text(CONFIGURATION.format(**facts, memory=memory))
    environment = {"SLURM_CONF": str(configuration)}
    daemons: list[subprocess.Popen[bytes]] = []
    try:
        daemons.append(_munge(folder))
        daemons.append(_daemon(folder, environment, "slurmctld", "-D", "-i", "-f", str(configuration)))
        daemons.append(_daemon(folder, environment, "slurmd", "-D", "-f", str(configuration)))
        _wait_for_node(folder, environment)
        yield environment
    finally:
        _cancel_everything(environment)
        for daemon in reversed(daemons):
            daemon.terminate()
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()


def _munge(folder: Path) -> subprocess.Popen[bytes]:
    key = folder / "munge.key"
    key.write_bytes(secrets.token_bytes(128))
    key.chmod(0o400)
    files = {"socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
    words = [f"--{option}={folder}/munge.{end}" for option, end in files.items()]
    daemon = _daemon(folder, {}, "munged", "--foreground", "--force", f"--key-file={key}", *words)
    until = time.monotonic() + PATIENCE
    while not (folder / "munge.socket").exists():
        assert daemon.poll() is None, (folder / "munged.out").read_text()
        assert time.monotonic() < until, "munged does not answer"
        time.sleep(0.05)
    return daemon


def _daemon(folder: Path, environment: dict[str, str], name: str, *words: str) -> subprocess.Popen[bytes]:
    program = _path(name)
    assert program is not None
    with (folder / f"{name}.out").open("w") as output:
        return subprocess.Popen([program, *words], env={**os.environ, **environment}, stdout=output, stderr=output)


def _wait_for_node(folder: Path, environment: dict[str, str]) -> None:
    until = time.monotonic() + PATIENCE
    while True:
        found = subprocess.run(["sinfo", "-h", "-o", "%T"], env={**os.environ, **environment}, capture_output=True)
        if b"idle" in found.stdout:
            return
        logs = [path.read_text()[-2000:] for path in folder.glob("slurm*.[lo]*")]
        assert time.monotonic() < until, (found, logs)
        time.sleep(0.2)


def _cancel_everything(environment: dict[str, str]) -> None:
    subprocess.run(["scancel", "-u", "root"], env={**os.environ, **environment}, capture_output=True, timeout=20)


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
