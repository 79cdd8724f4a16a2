"""The value-learning rules, one file each: importing it makes them known to `init_td`, `replay` and `update_td`."""

from headrace.definition.rules import dqn, qrc, stream_q

__all__ = ["dqn", "qrc", "stream_q"]
