"""Actions, temporal-difference errors, and how far each rule moves: one equation, one function."""

from __future__ import annotations

import numpy as np

from headrace.engines.fast.compiling import exact, ordered
from headrace.engines.fast.kernels.vectors import ONE, ZERO, fill
from headrace.engines.fast.native import move, part

FLAGS = 5  # of a transition: action, terminated, truncated, last, greedy


@exact
def larger(a, b):
    """The larger of two numbers; not a number where one of them is none."""
    return a if a > b or a != a else b


@exact
def epsilon(f, n, step, total, start, end, fraction, out):
    """Falls linearly from start to end over the first `fraction` of `total` steps, and stays there."""
    span, now = f[fraction] * f[total], np.float32(n[step])
    done = now / max(span, ONE) if now < span else ONE
    f[out] = f[start] + (f[end] - f[start]) * done


@exact
def best(f, q, actions):
    """The first action of the largest value; where there is no number, the first of those."""
    found = 0
    for b in range(1, actions):
        if f[q + b] > f[q + found] or (f[q + b] != f[q + b] and f[q + found] == f[q + found]):
            found = b
    return found


@exact
def choose(f, n, q, actions, draws, eps, action, greedy):
    """A random action with probability eps, else the best one. A random draw of the best one counts as greedy."""
    good = best(f, q, actions)
    any_action = min(np.int64(f[draws + 1] * np.float32(actions)), actions - 1)
    n[action] = any_action if f[draws] < f[eps] else good
    n[greedy] = 1 if n[action] == good else 0


@exact
def select(f, n, values, actions, action, value, slopes):
    """The value of one action, and its gradient: a one at that action."""
    fill(part(f, slopes, actions), ZERO)
    f[slopes + n[action]] = ONE
    f[value] = f[values + n[action]]


@exact
def select_best(f, values, actions, value, slopes):
    """The largest value and its gradient: a one at the first action that has it."""
    good = best(f, values, actions)
    fill(part(f, slopes, actions), ZERO)
    f[slopes + good] = ONE
    f[value] = f[values + good]


@ordered
def td_error(f, n, q, reward, gamma, terminated, v, discount, delta):
    """r + gamma (1 - terminated) v - q."""
    f[discount] = ZERO if n[terminated] != 0 else f[gamma]
    f[delta] = f[reward] + f[discount] * f[v] - f[q]


@ordered
def stream_q_terms(f, s, lr, kappa, delta, size, terms, step_size):
    """alpha / max(M, 1) delta along the trace, where M = alpha kappa max(1, |delta|) ||z||_1."""
    bound = f[lr] * f[kappa] * larger(abs(f[delta]), ONE) * np.float32(s[size])
    f[step_size] = f[lr] / larger(bound, ONE)
    f[terms] = f[step_size] * f[delta]


@ordered
def dqn_terms(f, lr, delta, terms):
    """alpha delta along the gradient, which is here the whole trace."""
    f[terms] = f[lr] * f[delta]


@ordered
def qrc_terms(f, lr, h_lr, regularizer, delta, h, h_trace, keep, discount, terms, h_terms, h_decay):
    """z_h <- keep z_h + h; for w alpha (delta z_w - h g_q - z_h (gamma g_v - g_q)), for psi alpha_h (delta z_psi -
    h g_h - beta psi)."""
    f[h_trace] = f[h] if f[keep] == ZERO else f[keep] * f[h_trace] + f[h]
    f[terms], f[terms + 1] = f[lr] * f[delta], f[lr] * (f[h_trace] - f[h])
    f[terms + 2] = -f[lr] * f[h_trace] * f[discount]
    f[h_terms], f[h_terms + 1] = f[h_lr] * f[delta], -f[h_lr] * f[h]
    f[h_decay] = f[h_lr] * f[regularizer]


@ordered
def keep_trace(f, n, cut, decay, keep):
    """How much of the traces is kept: gamma lambda, or nothing where they were cut."""
    f[keep] = ZERO if n[cut] != 0 else f[decay]


@ordered
def cut_trace(n, terminated, truncated, greedy, cut):
    """Notes that traces are to be forgotten: the episode ended, or the action was not greedy."""
    n[cut] = 1 if n[terminated] != 0 or n[truncated] != 0 or n[greedy] == 0 else 0


@ordered
def polyak(f, target, source, size, keep):
    """target <- keep target + (1 - keep) source."""
    old, new, kept = part(f, target, size), part(f, source, size), f[keep]
    for j in range(size):
        old[j] = kept * old[j] + (ONE - kept) * new[j]


@ordered
def renew_copy(f, n, target, source, size, every, step):
    """target <- source at every so many steps."""
    if n[step] % n[every] == 0:
        move(f, target, source, size)


@ordered
def store(f, n, stored, stored_flags, inserted, size, transition, flags, width):
    """Puts a transition into the next place of a memory of `size`; counts on only as far as it matters."""
    slot = n[inserted] % size
    move(f, stored + slot * width, transition, width)
    for i in range(FLAGS):
        n[stored_flags + slot * FLAGS + i] = n[flags + i]
    n[inserted] = size if n[inserted] + 1 >= 2 * size else n[inserted] + 1


@ordered
def recall(f, n, stored, stored_flags, inserted, size, transition, flags, width, uniform):
    """Draws one of the stored transitions."""
    filled = min(n[inserted], size)
    slot = min(np.int64(f[uniform] * np.float32(filled)), filled - 1)
    move(f, transition, stored + slot * width, width)
    for i in range(FLAGS):
        n[flags + i] = n[stored_flags + slot * FLAGS + i]
