"""Which plan belongs to which value-learning rule."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

from headrace.agents import Dqn, Qrc, Replay, StreamQ
from headrace.engines.fast.dqn import DqnTd, ReplayTd
from headrace.engines.fast.frame import Frame
from headrace.engines.fast.networks import Rows
from headrace.engines.fast.qrc import QrcTd
from headrace.engines.fast.stream_q import StreamQTd
from headrace.engines.fast.td import Td


@singledispatch
def td_of(rule: Any, frame: Frame, draws: int, rows: Rows) -> Td:
    raise TypeError(f"no value-learning rule for {rule!r}")


@td_of.register
def _(rule: Dqn, frame: Frame, draws: int, rows: Rows) -> Td:
    kind = ReplayTd if isinstance(rule.memory, Replay) else DqnTd
    return kind(frame, rule, draws, rows)


@td_of.register
def _(rule: StreamQ, frame: Frame, draws: int, rows: Rows) -> Td:
    return StreamQTd(frame, rule, draws, rows)


@td_of.register
def _(rule: Qrc, frame: Frame, draws: int, rows: Rows) -> Td:
    return QrcTd(frame, rule, draws, rows)
