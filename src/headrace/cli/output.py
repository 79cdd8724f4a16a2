"""What commands print: text for people, JSON for programs, and one way to say that something was passed over."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from typing import Any

from headrace.runs.strict_json import dumps


def put(words: argparse.Namespace, result: Any, text: str) -> None:
    """The result: as JSON where that was asked for."""
    print(dumps(result) if words.json else text)


def notify(notices: Iterable[str]) -> None:
    for notice in notices:
        print(f"headrace: {notice}", file=sys.stderr, flush=True)
