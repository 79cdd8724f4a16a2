"""The command `headrace watch`: the report as a live page."""

from __future__ import annotations

import argparse
import json
import signal
import threading
from collections.abc import Callable
from pathlib import Path

from headrace.errors import BadSetting

ABOUT = "the report as a live page on this machine"
PORT = 8000
EVERY = 5.0  # seconds between two looks at the runs


def add_words(parser: argparse.ArgumentParser, number: Callable[[str], float]) -> None:
    add = parser.add_argument
    add("runs", metavar="RUNS", help="a folder of runs, at any depth; it may still be empty")
    add("--port", type=number, default=PORT, help=f"of 127.0.0.1; 0 takes a free one ({PORT})")
    add("--every", type=number, default=EVERY, metavar="SECONDS", help=f"between two looks at the runs ({EVERY:g})")


def run(words: argparse.Namespace) -> int:
    """Serves until Ctrl-C."""
    from headrace.analysis.canvas import require_matplotlib
    from headrace.analysis.report.server import Server
    from headrace.training.run import whole

    if not 0.2 <= words.every <= 3600:
        raise BadSetting(f"--every must be from 0.2 to 3600 seconds, got {words.every:g}")
    require_matplotlib()
    with Server(Path(words.runs), whole("port", words.port, 0, 65535), words.every) as server:
        _listen_to_signals()
        try:
            text = f"{server.address} shows {words.runs}; Ctrl-C ends it"
            print(json.dumps({"address": server.address}) if words.json else text, flush=True)
            server.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            print()
    return 0


def _listen_to_signals() -> None:
    """Ctrl-C and a request to terminate end the server, also where a shell has told the process to ignore them."""
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.default_int_handler)
