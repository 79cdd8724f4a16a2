"""Benchmark figures as text."""

from __future__ import annotations

from typing import Any

from headrace.errors import counted

Figures = dict[str, Any]

ROWS = (
    ("steps_per_s", "steps/s, environment included", ",.0f"),
    ("update_steps_per_s", "steps/s, update alone", ",.0f"),
    ("cpu_update_steps_per_s", "steps per s of CPU time, update alone", ",.0f"),
    ("p50_ms", "ms from answer to action, median", ".3f"),
    ("p99_ms", "ms from answer to action, 99th percentile", ".3f"),
    ("gflops", "GFLOP/s", ".1f"),
    ("gbytes_per_s", "GB/s of state", ".1f"),
    ("roofline_fraction", "share of the roofline", ".0%"),
    ("cpu_roofline_fraction", "share of the roofline, by CPU time", ".0%"),
    ("aux_active", "share of steps on which the auxiliary learnt", ".0%"),
    ("peak_rss_mb", "MB, the most a training process held", ".0f"),
    ("first_steps_s", "s until the first steps were done", ".1f"),
)
LABEL = max(len(label) for _, label, _ in ROWS) + 2


def stream_text(found: Figures) -> str:
    """One column for each engine."""
    engines = ["learner", "reference"] if found["engine"] == "both" else [found["engine"]]
    columns = [found[engine] if found["engine"] == "both" else found for engine in engines]
    game, peaks = found["game"], found["peaks"]
    title = (
        f"{found['variant']} on {found['suite']}/{game}" if game else f"{found['variant']}, {found['suite']}'s shapes"
    )
    lines = [
        f"{title}, one core of {found['machine']['cpu']}",
        " " * LABEL + "".join(f"{engine:>12}" for engine in engines),
        *(label.ljust(LABEL) + "".join(_cell(c.get(key), form) for c in columns) for key, label, form in ROWS),
        f"a step is {peaks['operations_per_step'] / 1e6:.1f} MFLOP and {peaks['state_bytes_per_step'] / 1e6:.1f} MB; "
        f"at {peaks['gflops']:.0f} GFLOP/s and {peaks['gbytes_per_s']:.0f} GB/s {peaks['limit_ms']:.3f} ms",
    ]
    if "ratio" in found:
        kind = "environment included" if game else "update alone"
        lines.append(f"learner / reference: {found['ratio']:.1f} ({kind}), {found['update_ratio']:.1f} (update alone)")
        lines.append(f"by CPU time: {found['cpu_ratio']:.1f} and {found['cpu_update_ratio']:.1f}")
    return "\n".join([*lines, *(f"note: {note}" for note in found["notes"])])


def _cell(value: float | None, form: str) -> str:
    return f"{'-' if value is None else format(value, form):>12}"


FLEET_ROWS = (
    ("microseconds_per_step", "microseconds per step of the fleet", ",.0f"),
    ("stream_steps_per_s", "stream-steps/s", ",.0f"),
    ("kernels_per_step", "kernels per step", ",.0f"),
    ("state_mb_per_step", "MB of state read and written per step", ",.1f"),
    ("gbytes_per_s", "GB/s of state", ",.0f"),
    ("copy_gbytes_per_s", "GB/s of a copy on this device", ",.0f"),
    ("bandwidth_fraction", "share of it", ".0%"),
    ("compile_s", "s to compile", ".1f"),
    ("begin_s", "s to begin", ".1f"),
)


HOST_FLEET_ROWS = (
    ("stream_steps_per_s", "stream-steps/s, environments and metrics included", ",.0f"),
    ("step_ms", "ms per step of the fleet", ",.3f"),
    ("environments_steps_per_s", "steps/s of the environments without agents", ",.0f"),
    ("environment_ms", "ms per step of one environment", ".3f"),
    ("environment_ms_together", "the same in the fleet", ".3f"),
    ("card_stream_steps_per_s", "stream-steps/s of one half without environments", ",.0f"),
    ("card_ms", "ms per step of that half", ".3f"),
    ("dispatch_ms", "ms until the host has asked for it", ".3f"),
    ("frames_there_ms", "ms for its frames to reach the device", ".3f"),
    ("actions_back_ms", "ms for its actions to come back", ".3f"),
    ("card_busy", "share of the time that the device is busy", ".0%"),
    ("environments_busy", "that the environments' workers are", ".0%"),
    ("half_dispatch", "that a half's thread dispatches to the device", ".0%"),
    ("half_device", "that it waits for the device", ".0%"),
    ("half_start", "that it starts its environments", ".0%"),
    ("half_environments", "that it waits for them", ".0%"),
    ("compile_s", "s to compile", ".1f"),
    ("begin_s", "s to begin", ".1f"),
)


def fleet_text(found: Figures) -> str:
    rows = HOST_FLEET_ROWS if "workers" in found else FLEET_ROWS
    width = max(len(label) for _, label, _ in rows) + 2
    streams, games = counted(found["streams"], "stream"), ", ".join(found["games"])
    title = f"{found['variant']}, {streams} of {games} on {found['device']}"
    if "workers" in found:
        title += f", {counted(found['workers'], 'worker')}, halves of {' and '.join(map(str, found['halves']))}"
    lines = [title, *(label.ljust(width) + _cell(found[key], form) for key, label, form in rows)]
    return "\n".join([*lines, *(f"note: {note}" for note in found.get("notes", ()))])
