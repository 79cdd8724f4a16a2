"""What can go wrong in a way that a user can act on.

The command line shows each of these as one message without a traceback; anything else is a mistake of the program.
"""

from __future__ import annotations

import difflib
import traceback
from collections.abc import Iterable
from importlib.util import find_spec
from os import PathLike

NEAR = 0.6  # how alike two names are that may be mistaken for each other, from 0 to 1
LISTED_NAMES = 12  # more known names than this are counted, not listed


class HeadraceError(Exception):
    """A user's mistake, or a situation that a user can act on."""


class UnknownName(HeadraceError):
    """A variant, environment, setting or sink of this name does not exist."""


class BadSetting(HeadraceError):
    """A setting has a value that it cannot take."""


class RunConflict(HeadraceError):
    """The folder belongs to another run, to another process, or to no run at all."""


class CheckpointDamaged(HeadraceError):
    """A checkpoint is truncated, changed, or was written by another run."""


class TableChanged(HeadraceError):
    """A run's table is not what the process that writes it left."""


class EnvironmentFault(HeadraceError):
    """An environment raised, or returned something that nothing can be learnt from."""


class Diverged(HeadraceError):
    """A quantity of the agent is no longer finite."""

    def __init__(self, quantity: str, step: int, saved: int | None = None) -> None:
        """`saved` is the step of the last good checkpoint, where there is one."""
        kept = "It left no good checkpoint" if saved is None else f"The checkpoint of step {saved:,} is kept"
        super().__init__(
            f"the agent diverged: {quantity} is no longer finite at step {step:,}. "
            f"{kept}; a smaller learning rate or auxiliary weight may help."
        )
        self.quantity = quantity
        self.step = step
        self.saved = saved

    def __reduce__(self):
        return type(self), (self.quantity, self.step, self.saved)


class StorageFull(HeadraceError):
    """The disk, the quota or the file-size limit leaves no room for a file."""

    def __init__(self, path: str | PathLike[str], needed: int, reason: str) -> None:
        super().__init__(
            f"no room to write {path} ({needed:,} bytes needed): {reason}. Nothing half-written was left behind; "
            "the last good checkpoint, if there was one, is intact. Free some space and run the same command again."
        )
        self.path = path
        self.needed = needed
        self.reason = reason

    def __reduce__(self):
        return type(self), (self.path, self.needed, self.reason)


def unknown(kind: str, value: str, known: Iterable[str], meant: Iterable[str] = ()) -> UnknownName:
    """An error that names the value, what was `meant` or the nearest known name where one is near, and the known."""
    names = sorted(known)
    said = f"; did you mean {' or '.join(map(repr, meant))}?" if meant else _suggestion(value, names)
    return UnknownName(f"unknown {kind} {value!r}{said} {_known(kind, names)}.")


def _suggestion(value: str, names: list[str]) -> str:
    """The name that is most alike; what the value has before its last slash counts only where no name begins so."""
    before = value[: value.rfind("/") + 1].lower()
    shared = before if any(name.lower().startswith(before) for name in names) else ""
    by_lower_case = {name.lower().removeprefix(shared): name for name in names}
    near = difflib.get_close_matches(value.lower().removeprefix(shared), by_lower_case, n=1, cutoff=NEAR)
    return f"; did you mean {by_lower_case[near[0]]!r}?" if near else "."


def _known(kind: str, names: list[str]) -> str:
    if not names:
        return f"No {kind} is known here"
    shown = ", ".join(names[:LISTED_NAMES])
    more = len(names) - LISTED_NAMES
    return f"Known: {shown}" + (f" and {more} more" if more > 0 else "")


def require_package(module: str, extra: str, needed: str) -> None:
    """An error where a package is missing, with the extra that installs it; `needed` says by what it is needed."""
    if find_spec(module) is None:
        raise HeadraceError(f"{needed} package: pip install 'headrace[{extra}]'")


def raised(error: BaseException, when: str = "") -> str:
    """An exception of somebody else's code in words: its type, when, the line that raised it, its message."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
    try:
        words = f": {error}" if str(error) else ""
    except Exception:
        words = ", which cannot be put into words"
    return f"{type(error).__name__}{when}{where}{words}"


def counted(number: int, noun: str) -> str:
    """`1 seed`, `1,000 seeds`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
