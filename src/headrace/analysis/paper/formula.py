"""The paper's own aggregates over environments, which differ from the definitions of Agarwal et al. 2021.

All three start from the mean over seeds of every environment: one number an environment. `iqm` is the mean of those
that lie between the quartiles, and what follows +- is a population standard deviation over environments, not over
seeds.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headrace.analysis.paper import Value


def aggregates(environment_means: Sequence[float] | np.ndarray) -> dict[str, Value]:
    """`mean`, `median` and `iqm` as the paper computes them; nothing where an environment has no mean yet.

    Of two environments neither lies between the quartiles, so that they have no `iqm`.
    """
    means = np.asarray(environment_means, np.float64)
    if not len(means) or np.isnan(means).any():
        return {}
    spread, middle = float(means.std()), between_quartiles(means)
    found = {"mean": Value(float(means.mean()), spread), "median": Value(float(np.median(means)), spread)}
    return found | ({"iqm": Value(float(middle.mean()), float(middle.std()))} if len(middle) else {})


def between_quartiles(values: np.ndarray) -> np.ndarray:
    """The values from the first to the third quartile, both included."""
    low, high = np.percentile(values, [25, 75])
    return values[(low <= values) & (values <= high)]
