"""Runs whose table is read once, whatever is asked of it: a page shows each run in many places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property

from headrace.analysis.records import CURVE_POINTS, Found, Record
from headrace.runs.folder import METRICS
from headrace.runs.rows import sampled_rows
from headrace.runs.tables import Columns


@dataclass(frozen=True)
class ReadOnce(Record):
    @staticmethod
    def of(record: Record) -> ReadOnce:
        return ReadOnce(**{field.name: getattr(record, field.name) for field in fields(record)})

    @cached_property
    def table(self) -> Columns:
        """All columns at the rows that a curve is drawn from."""
        return sampled_rows(self.path / METRICS, self.columns(), CURVE_POINTS)

    def curve(self, columns: Sequence[str] = ("return",), points: int = CURVE_POINTS) -> Columns:
        if points != CURVE_POINTS:
            return super().curve(columns, points)
        return {name: values for name, values in self.table.items() if name in ("step", *columns)}


def read_once(found: Found) -> Found:
    return Found([ReadOnce.of(record) for record in found.records], found.problems, found.foreign)
