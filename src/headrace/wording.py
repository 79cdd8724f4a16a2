"""Words that follow numbers."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """`1 seed`, `1,000 seeds`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
