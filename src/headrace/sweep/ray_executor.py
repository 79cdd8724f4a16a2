"""On a Ray cluster: each run is a task of one core, on any node."""

from __future__ import annotations

import os
import secrets
import selectors
import time
from pathlib import Path
from typing import Any

from headrace.errors import BadSetting, HeadraceError, require_package
from headrace.sweep.executor import Ended, Event, Job, Options, Said, order
from headrace.sweep.processes import Program
from headrace.sweep.remote import Cluster
from headrace.sweep.workers import available_cores

CONNECT_SECONDS = 60.0  # in which a cluster must answer, or one on this machine be started
GOODBYE_SECONDS = 10.0  # in which a cluster that we started must be gone
LOSSES = 3  # of whole clusters that a sweep survives
REMEDY = "start one with `ray start --head`, or leave out --address and RAY_ADDRESS to use this machine alone"
NOBODY = {"": "no Ray cluster could be started here", "auto": "no Ray cluster of this machine answers"}
LOST = "the Ray cluster was lost; its runs continue from their checkpoints once there is one again"
SETTINGS = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_gcs_rpc_server_reconnect_timeout_s": "20"}


class Ray(Cluster):
    """Submits jobs through a bridge process, the Ray driver; if the cluster is lost a new bridge is started."""

    def __init__(self, out: Path, options: Options) -> None:
        require_package("ray", "ray", "--on ray needs the ray")
        super().__init__(out, options)
        self.address = _checked(options.address or os.environ.get("RAY_ADDRESS", ""))
        self._given: dict[int, Job] = {}  # by number
        self._numbered = self._losses = 0
        self._bridge: Program | None = None
        self._selector = selectors.DefaultSelector()

    def wait(self, seconds: float) -> list[Event]:
        events, self._untold = self._untold, []
        if self._waiting and self._bridge is None:
            self._bridge, said = self._connected()
            events += said
        self._give()
        for _ in self._selector.select(0 if events else seconds):
            events += self._heard()
        return [*events, *self._watch.news(self._given.values())]

    def stop(self) -> None:
        super().stop()
        if self._bridge:
            self._bridge.tell({"stop": True})

    def close(self) -> None:
        if self._bridge:
            self._part(GOODBYE_SECONDS)
        self._selector.close()
        super().close()

    def _give(self) -> None:
        room = (self.options.jobs or len(self._waiting) + len(self._given)) - len(self._given)
        for job in self._waiting[:room]:
            self._numbered += 1
            self._given[self._numbered] = job
            assert self._bridge is not None
            self._bridge.tell({"number": self._numbered, "order": order(job, self.out, self.options)})
        del self._waiting[:room]

    def _connected(self) -> tuple[Program, list[Event]]:
        """A bridge that has joined the cluster, and a notice about it."""
        cores = self.options.jobs or len(available_cores())
        bridge = Program("headrace.sweep.ray_bridge", [self.address, str(cores)], self._environment())
        self._selector.register(bridge.answers, selectors.EVENT_READ)
        self._bridge = bridge
        heard = self._first_words(bridge)
        if "ready" in heard:
            where = f"the Ray cluster at {self.address} has" if self.address else "started a Ray cluster here with"
            return bridge, [Said(f"{where} {heard['ready']:g} cores")]
        how = self._part(0.0)
        at = NOBODY.get(self.address, f"no Ray cluster answers at {self.address}")
        why = heard.get("refused") or (f"waited for {CONNECT_SECONDS:.0f} seconds" if "late" in heard else how)
        raise HeadraceError(f"{at}: {why}; {REMEDY if self.address else 'look into /tmp/ray/session_latest/logs'}")

    def _environment(self) -> dict[str, str]:
        """A cluster started here gets its own token; Ray would leave one in the user's home."""
        if self.address or "RAY_AUTH_MODE" in os.environ:
            return SETTINGS
        return {**SETTINGS, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}

    def _first_words(self, bridge: Program) -> dict[str, Any]:
        until = time.monotonic() + CONNECT_SECONDS
        while time.monotonic() < until:
            if self._selector.select(1.0):
                heard = bridge.messages()
                if heard is None:
                    return {}
                if heard:
                    return heard[0]
        return {"late": True}

    def _heard(self) -> list[Event]:
        assert self._bridge is not None
        messages = self._bridge.messages()
        if messages is None:
            return self._lost()
        return [event for message in messages for event in self._meaning(message)]

    def _meaning(self, message: dict[str, Any]) -> list[Event]:
        job = self._given.pop(message["ended"])
        name = job.runs[0].name
        causes = {run or name: cause for run, cause in message["causes"].items()}
        return [*(Said(notice) for notice in message["notices"]), self._ended(job, causes, message["lost"])]

    def _lost(self) -> list[Event]:
        """Requeues the runs for the next cluster."""
        how = self._part(0.0)
        if self._stopping:
            given, self._given = self._given, {}
            return [self._ended(job, {}, LOST) for job in given.values()]
        self._losses += 1
        if self._losses > LOSSES:
            raise HeadraceError(f"the Ray cluster was lost {self._losses} times; the last time {how}")
        for job in self._given.values():
            self._watch.forget(job)
        self._waiting = [*self._given.values(), *self._waiting]
        self._given = {}
        return [Said(LOST)]

    def _ended(self, job: Job, causes: dict[str, str], lost: str) -> Ended:
        self._watch.forget(job)
        return Ended(job, causes, lost)

    def _part(self, patience: float) -> str:
        assert self._bridge is not None
        bridge, self._bridge = self._bridge, None
        self._selector.unregister(bridge.answers)
        return bridge.end(patience)


def _checked(address: str) -> str:
    """The address as Ray takes it: host:port, or `auto` for the cluster that this machine belongs to."""
    if address.startswith("ray://"):
        raise BadSetting(
            f"Ray's client is not supported, got {address!r}: start the sweep on a machine of the cluster, "
            "with --address auto or the host:port that `ray start --head` printed"
        )
    host, _, port = address.rpartition(":")
    if address and address != "auto" and not (host and "/" not in host and port.isdigit()):
        raise BadSetting(
            f"the address of a Ray cluster is host:port, as `ray start --head` prints it, or auto; got {address!r}"
        )
    return address
