"""A helper process that exchanges JSON lines with this one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

TAIL = 300  # bytes of a dead process's standard error that are quoted


class Program:
    """A Python module run in a session of its own, so that Ctrl-C reaches only this process. It ends when its standard
    input closes. Its standard error goes to a file, which is quoted if it dies.
    """

    def __init__(self, module: str, words: Sequence[str], environment: Mapping[str, str]) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the process
        self._unread = b""
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, **environment},
            start_new_session=True,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._orders, self.answers = self.process.stdin, self.process.stdout

    def tell(self, message: Mapping[str, Any]) -> None:
        with suppress(BrokenPipeError):  # it has died; its answers will end
            self._orders.write(json.dumps(message).encode() + b"\n")
            self._orders.flush()

    def messages(self) -> list[dict[str, Any]] | None:
        """The messages since the last call; waits for one; None once the process is dead."""
        data = os.read(self.answers.fileno(), 1 << 16)
        if not data:
            return None
        *lines, self._unread = (self._unread + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def ask_to_stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def end(self, patience: float = 0.0) -> str:
        """Kills it if it does not end by itself within so many seconds; returns how it ended."""
        with suppress(BrokenPipeError):
            self._orders.close()
        if patience:
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(patience)
        self.process.kill()
        code = self.process.wait()
        self.answers.close()
        with self._errors as errors:
            errors.seek(max(0, errors.seek(0, 2) - TAIL))
            words = errors.read().decode(errors="replace").strip()
        return f"its process {_how(code)}" + (f": {words.splitlines()[-1]}" if words else "")


def _how(code: int) -> str:
    if code >= 0:
        return f"ended with status {code}"
    name = signal.Signals(-code).name
    return f"was killed by {name}" + (" (out of memory?)" if name == "SIGKILL" else "")
