"""A program of ours in a process of its own: one JSON object a line, both ways."""

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

LAST_WORDS = 300  # bytes of a dead program's standard error that are worth showing


class Program:
    """A process of its own session, so that Ctrl-C reaches only us. It ends when its standard input closes.

    What it prints besides answers goes to a file that nobody sees unless it dies.
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
        """What it has said since; waits until it says something; None once it is dead."""
        data = os.read(self.answers.fileno(), 1 << 16)
        if not data:
            return None
        *lines, self._unread = (self._unread + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def ask_to_stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def bury(self, patience: float = 0.0) -> str:
        """Ends it, after so many seconds in which it may end by itself, and says how it died."""
        with suppress(BrokenPipeError):
            self._orders.close()
        if patience:
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(patience)
        self.process.kill()
        code = self.process.wait()
        self.answers.close()
        with self._errors as errors:
            errors.seek(max(0, errors.seek(0, 2) - LAST_WORDS))
            words = errors.read().decode(errors="replace").strip()
        return f"its process {_how(code)}" + (f": {words.splitlines()[-1]}" if words else "")


def _how(code: int) -> str:
    if code >= 0:
        return f"ended with status {code}"
    name = signal.Signals(-code).name
    return f"was killed by {name}" + (" (out of memory?)" if name == "SIGKILL" else "")
