"""A module's update as a combination of six directions, and what the combining needs: their inner products.

The directions are U (the RL update), G (the auxiliary gradient), C (its history), E (the history of RL updates), M
(their moving average) and Z (what the RL update is proportional to: the trace, with this step's gradient). A filter or
a merge only chooses coefficients, from the inner products of these; then one pass over the module applies them.
"""

from __future__ import annotations

import numpy as np

from headrace.engines.fast.compiling import ordered

U, G, C, E, M, Z = range(6)
DIRECTIONS = 6
TINY = 1e-30  # makes 0 / 0 a zero, and is invisible beside the squared norm of any update

NO_FILTER, RAW, PROJECTED, RAW_CURRENT = range(4)
SUM, MIX, FLIPPED = range(3)
AS_THEY_ARE, FREE_OF_PRESENT, FREE_OF_UPDATE, FREE_OF_AVERAGE, WITHOUT_CONFLICT = range(5)
TD_ALONE, AUX_ALONE, SHARED = range(3)

# Where a module's coefficients lie: the update of its weights along all directions, then what becomes of C, E and M.
C_KEEP, C_TAKE, E_KEEP, E_TAKE, M_KEEP, M_TAKE, M_TAKE_E = range(DIRECTIONS, DIRECTIONS + 7)
COEFFICIENTS = DIRECTIONS + 7


@ordered
def plus(a, factor, b):
    """a + factor b."""
    return (
        a[0] + factor * b[0], a[1] + factor * b[1], a[2] + factor * b[2],
        a[3] + factor * b[3], a[4] + factor * b[4], a[5] + factor * b[5],
    )  # fmt: skip


@ordered
def blend(keep, old, new):
    return plus(plus(NOTHING, keep, old), 1.0 - keep, new)


@ordered
def inner(s, gram, a, b):
    """The inner product of two combinations; a direction that takes no part is not looked at."""
    total = 0.0
    for i in range(DIRECTIONS):
        for j in range(DIRECTIONS):
            if a[i] != 0.0 and b[j] != 0.0:
                total += a[i] * b[j] * s[gram + DIRECTIONS * i + j]
    return total


@ordered
def squared_length(s, gram, a):
    """Of what is left of two vectors that are nearly parallel, rounding may make it negative; it is then nothing."""
    found = inner(s, gram, a, a)
    return 0.0 if found < 0.0 else found


@ordered
def without(s, gram, a, direction):
    """`a` less its component along the direction; `a` itself where that is zero."""
    along = inner(s, gram, a, direction) / (squared_length(s, gram, direction) + TINY)
    return plus(a, -along, direction)


NOTHING = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
ALONG_U = (1.0, 0.0, 0.0, 0.0, 0.0, 0.0)
ALONG_G = (0.0, 1.0, 0.0, 0.0, 0.0, 0.0)
ALONG_C = (0.0, 0.0, 1.0, 0.0, 0.0, 0.0)
ALONG_E = (0.0, 0.0, 0.0, 1.0, 0.0, 0.0)
ALONG_M = (0.0, 0.0, 0.0, 0.0, 1.0, 0.0)
ALONG_Z = (0.0, 0.0, 0.0, 0.0, 0.0, 1.0)


@ordered
def filtered(s, gram, kind, beta, gradient, past):
    """The gradient to use, and what the history becomes."""
    if kind == NO_FILTER:
        return gradient, past
    if kind == RAW_CURRENT:
        present = blend(beta, past, gradient)
        return without(s, gram, gradient, present), present
    left = without(s, gram, gradient, past)
    return left, blend(beta, past, left if kind == PROJECTED else gradient)


@ordered
def joined(kind, mix, td, aux):
    """Both updates of a shared module as one."""
    if kind == MIX:
        return blend(mix, td, aux)
    return plus(td, -1.0 if kind == FLIPPED else 1.0, aux)


@ordered
def cosine(s, gram, a, b):
    """The cosine of the angle between two combinations; 0 where one of them is zero."""
    lengths = np.sqrt(squared_length(s, gram, a)) * np.sqrt(squared_length(s, gram, b))
    return inner(s, gram, a, b) / lengths if lengths > 0.0 else 0.0


@ordered
def sum_grams(s, gram, out):
    """Adds a module's inner products to those of a vector that it is part of."""
    for i in range(DIRECTIONS**2):
        s[out + i] += s[gram + i]


@ordered
def combine(
    f, s, n, gram, td_gram, aux_gram, out, active, share, td_filter, td_beta, aux_filter, aux_beta, descent, merge,
    join, mix, average_beta, aux_square, cosines,
):  # fmt: skip
    """The coefficients of one module, from the inner products of its directions; and its part of the metrics. The
    filters of both streams see it as part of a vector, which has inner products of its own."""
    td, td_history = filtered(s, td_gram, td_filter, f[td_beta], ALONG_U, ALONG_E)
    aux, aux_history = NOTHING, ALONG_C
    if n[active] != 0 and share != TD_ALONE:
        aux, aux_history = filtered(s, aux_gram, aux_filter, f[aux_beta], ALONG_G, ALONG_C)
        aux = plus(NOTHING, f[descent], aux)
        s[aux_square] += squared_length(s, gram, aux)
        if cosines >= 0:
            f[cosines] = cosine(s, gram, td, plus(NOTHING, f[descent], ALONG_G))
            f[cosines + 1] = cosine(s, gram, td, aux)
    average = ALONG_M
    if share == SHARED:
        if merge == FREE_OF_AVERAGE:
            average = blend(f[average_beta], ALONG_M, td)
            aux = without(s, gram, aux, average)
        elif merge == FREE_OF_PRESENT:
            aux = without(s, gram, aux, ALONG_Z)
        elif merge == FREE_OF_UPDATE:
            aux = without(s, gram, aux, ALONG_U)
        elif merge == WITHOUT_CONFLICT and inner(s, gram, td, aux) < 0:
            td, aux = without(s, gram, td, aux), without(s, gram, aux, td)
        both = joined(join, f[mix], td, aux)
    else:
        both = td if share == TD_ALONE else aux
    for i in range(DIRECTIONS):
        f[out + i] = both[i]
    f[out + C_KEEP], f[out + C_TAKE] = aux_history[C], aux_history[G]
    f[out + E_KEEP], f[out + E_TAKE] = td_history[E], td_history[U]
    f[out + M_KEEP], f[out + M_TAKE], f[out + M_TAKE_E] = average[M], average[U], average[E]
