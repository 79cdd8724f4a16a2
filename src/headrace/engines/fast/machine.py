"""The machine: one compiled loop that carries out a list of instructions on one stretch of memory.

An instruction is a row of whole numbers: its code, then its operands, which are offsets and sizes. Shapes, agents and
switches are all in the list, so one compilation serves every agent on every observation.
"""

from __future__ import annotations

import numpy as np

from headrace.engines.fast.compiling import entry, ordered
from headrace.engines.fast.kernels.accounts import (
    add,
    clear,
    copy,
    cosine_loss,
    count_step,
    overshoot,
    root,
    size_of,
    tally,
    zero,
)
from headrace.engines.fast.kernels.convolutions import (
    action_bias,
    action_gradient,
    convolve,
    convolve_back,
    convolve_gradient,
    frame_image,
    turn_over,
    unframe_image,
)
from headrace.engines.fast.kernels.directions import combine, sum_grams
from headrace.engines.fast.kernels.factors import (
    factored_back,
    factored_both_ways,
    factored_flush,
    factored_move,
    factored_through,
    write_factors,
)
from headrace.engines.fast.kernels.flat import (
    bound,
    decay,
    draw_back,
    follow_alone,
    follow_trace,
    guard,
    products,
    shorten,
    squared_distance,
    squared_norm,
    trace_size,
    update,
)
from headrace.engines.fast.kernels.layers import (
    activate,
    column_sums,
    dense,
    dense_back,
    dense_both_ways,
    head,
    head_back,
    join_action,
    outer,
    rectify,
    unactivate,
    unrectify,
)
from headrace.engines.fast.kernels.outers import (
    outer_decay,
    outer_products,
    outer_squared_norm,
    outer_trace_size,
    outer_update,
)
from headrace.engines.fast.kernels.randomness import draw, threefry, uniform
from headrace.engines.fast.kernels.rules import (
    choose,
    cut_trace,
    dqn_terms,
    epsilon,
    keep_trace,
    polyak,
    qrc_terms,
    recall,
    renew_copy,
    select,
    select_best,
    store,
    stream_q_terms,
    td_error,
)
from headrace.engines.fast.kernels.scales import (
    is_finite,
    limit,
    scale_reward,
    stack,
    stack_first,
    standardise,
    standardise_frozen,
)
from headrace.engines.fast.kernels.windows import augment, look, push
from headrace.engines.fast.native import flush_denormals, peek, post, set_mode

INSTRUCTIONS = (
    standardise,
    standardise_frozen,
    limit,
    scale_reward,
    stack,
    stack_first,
    draw,
    convolve,
    turn_over,
    convolve_back,
    convolve_gradient,
    frame_image,
    unframe_image,
    action_bias,
    action_gradient,
    activate,
    unactivate,
    rectify,
    unrectify,
    column_sums,
    join_action,
    dense,
    dense_back,
    dense_both_ways,
    outer,
    head,
    head_back,
    epsilon,
    choose,
    select,
    select_best,
    td_error,
    dqn_terms,
    stream_q_terms,
    qrc_terms,
    keep_trace,
    cut_trace,
    polyak,
    renew_copy,
    store,
    recall,
    look,
    push,
    augment,
    trace_size,
    follow_trace,
    follow_alone,
    squared_norm,
    guard,
    shorten,
    squared_distance,
    bound,
    draw_back,
    products,
    update,
    decay,
    outer_trace_size,
    outer_squared_norm,
    outer_products,
    outer_update,
    outer_decay,
    factored_through,
    factored_back,
    factored_both_ways,
    factored_move,
    factored_flush,
    sum_grams,
    combine,
    cosine_loss,
    root,
    overshoot,
    size_of,
    copy,
    add,
    zero,
    clear,
    count_step,
    tally,
)
(
    SKIP,
    STANDARDISE,
    STANDARDISE_FROZEN,
    LIMIT,
    SCALE_REWARD,
    STACK,
    STACK_FIRST,
    DRAW,
    CONVOLVE,
    TURN_OVER,
    CONVOLVE_BACK,
    CONVOLVE_GRADIENT,
    FRAME_IMAGE,
    UNFRAME_IMAGE,
    ACTION_BIAS,
    ACTION_GRADIENT,
    ACTIVATE,
    UNACTIVATE,
    RECTIFY,
    UNRECTIFY,
    COLUMN_SUMS,
    JOIN_ACTION,
    DENSE,
    DENSE_BACK,
    DENSE_BOTH_WAYS,
    OUTER,
    HEAD,
    HEAD_BACK,
    EPSILON,
    CHOOSE,
    SELECT,
    SELECT_BEST,
    TD_ERROR,
    DQN_TERMS,
    STREAM_Q_TERMS,
    QRC_TERMS,
    KEEP_TRACE,
    CUT_TRACE,
    POLYAK,
    RENEW_COPY,
    STORE,
    RECALL,
    LOOK,
    PUSH,
    AUGMENT,
    TRACE_SIZE,
    FOLLOW_TRACE,
    FOLLOW_ALONE,
    SQUARED_NORM,
    GUARD,
    SHORTEN,
    SQUARED_DISTANCE,
    BOUND,
    DRAW_BACK,
    PRODUCTS,
    UPDATE,
    DECAY,
    OUTER_TRACE_SIZE,
    OUTER_SQUARED_NORM,
    OUTER_PRODUCTS,
    OUTER_UPDATE,
    OUTER_DECAY,
    FACTORED_THROUGH,
    FACTORED_BACK,
    FACTORED_BOTH_WAYS,
    FACTORED_MOVE,
    FACTORED_FLUSH,
    SUM_GRAMS,
    COMBINE,
    COSINE_LOSS,
    ROOT,
    OVERSHOOT,
    SIZE_OF,
    COPY,
    ADD,
    ZERO,
    CLEAR,
    COUNT_STEP,
    TALLY,
) = range(len(INSTRUCTIONS) + 1)
CODES = {instruction: code for code, instruction in enumerate(INSTRUCTIONS, start=1)}
AWAIT, ANSWER = -1, -2  # the first and the last row of a list that is carried out again and again
FINE = -1  # what `carry_out` returns when all is well
WIDTH = 26  # of a row: the code and the most operands that an instruction has


@ordered
def ticket_came(flags, patience):
    """Waits for a ticket that has not been answered; gives up where it is negative, or none has come for a while."""
    for _ in range(patience):
        ticket = peek(flags)
        if ticket != peek(flags + 8):
            return ticket >= 0
    return False


@entry
def carry_out(rows, f, s, n, checked):
    """Carries a list out, row by row. Before, the stretches (start, size) that are to be `checked` must all be finite:
    where one is not, nothing is done and its number returned.

    `SKIP flag count` passes `count` rows over unless the flag is set; between `AWAIT flags patience` and `ANSWER flags`
    lies what is done for every ticket that is posted. The loop is no function of its own: that would be compiled twice.
    """
    for i in range(0, checked.size, 2):
        if not is_finite(f, checked[i], checked[i + 1]):
            return i // 2
    mode = flush_denormals()
    at = 0
    while at < rows.shape[0]:
        a = rows[at]
        at += 1
        code = a[0]
        if code == SKIP:
            at += 0 if n[a[1]] != 0 else a[2]
        elif code == AWAIT:
            if not ticket_came(a[1], a[2]):
                break
        elif code == ANSWER:
            post(a[1] + 8, peek(a[1]))
            at = 0
        elif code == STANDARDISE:
            standardise(f, n, a[1], a[2], a[3], a[4], a[5])
        elif code == STANDARDISE_FROZEN:
            standardise_frozen(f, n, a[1], a[2], a[3], a[4], a[5])
        elif code == LIMIT:
            limit(f, a[1], a[2], a[3])
        elif code == SCALE_REWARD:
            scale_reward(f, n, a[1], a[2], a[3], a[4], a[5], a[6], a[7])
        elif code == STACK:
            stack(f, a[1], a[2], a[3], a[4], a[5], a[6])
        elif code == STACK_FIRST:
            stack_first(f, a[1], a[2], a[3], a[4], a[5])
        elif code == DRAW:
            draw(f, n, a[1], a[2], a[3], a[4])
        elif code == CONVOLVE:
            convolve(f, n, a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9])
        elif code == TURN_OVER:
            turn_over(f, n, a[1], a[2], a[3], a[4], a[5], a[6])
        elif code == CONVOLVE_BACK:
            convolve_back(f, n, a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10])
        elif code == CONVOLVE_GRADIENT:
            convolve_gradient(f, n, a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9])
        elif code == FRAME_IMAGE:
            frame_image(f, a[1], a[2], a[3], a[4], a[5])
        elif code == UNFRAME_IMAGE:
            unframe_image(f, a[1], a[2], a[3], a[4], a[5])
        elif code == ACTION_BIAS:
            action_bias(f, n, a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8])
        elif code == ACTION_GRADIENT:
            action_gradient(f, n, a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9])
        elif code == ACTIVATE:
            activate(f, a[1], a[2], a[3], a[4], a[5])
        elif code == UNACTIVATE:
            unactivate(f, a[1], a[2], a[3], a[4], a[5])
        elif code == RECTIFY:
            rectify(f, a[1], a[2])
        elif code == UNRECTIFY:
            unrectify(f, a[1], a[2], a[3])
        elif code == COLUMN_SUMS:
            column_sums(f, a[1], a[2], a[3], a[4])
        elif code == JOIN_ACTION:
            join_action(f, n, a[1], a[2], a[3], a[4], a[5], a[6])
        elif code == DENSE:
            dense(f, a[1], a[2], a[3], a[4], a[5], a[6])
        elif code == DENSE_BACK:
            dense_back(f, a[1], a[2], a[3], a[4], a[5], a[6])
        elif code == DENSE_BOTH_WAYS:
            dense_both_ways(f, a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8])
        elif code == OUTER:
            outer(f, a[1], a[2], a[3], a[4], a[5])
        elif code == HEAD:
            head(f, a[1], a[2], a[3], a[4], a[5])
        elif code == HEAD_BACK:
            head_back(f, a[1], a[2], a[3], a[4], a[5], a[6], a[7])
        elif code == EPSILON:
            epsilon(f, n, a[1], a[2], a[3], a[4], a[5], a[6])
        elif code == CHOOSE:
            choose(f, n, a[1], a[2], a[3], a[4], a[5], a[6])
        elif code == SELECT:
            select(f, n, a[1], a[2], a[3], a[4], a[5])
        elif code == SELECT_BEST:
            select_best(f, a[1], a[2], a[3], a[4])
        elif code == TD_ERROR:
            td_error(f, n, a[1], a[2], a[3], a[4], a[5], a[6], a[7])
        elif code == DQN_TERMS:
            dqn_terms(f, a[1], a[2], a[3])
        elif code == STREAM_Q_TERMS:
            stream_q_terms(f, s, a[1], a[2], a[3], a[4], a[5], a[6])
        elif code == QRC_TERMS:
            qrc_terms(f, a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11])
        elif code == KEEP_TRACE:
            keep_trace(f, n, a[1], a[2], a[3])
        elif code == CUT_TRACE:
            cut_trace(n, a[1], a[2], a[3], a[4])
        elif code == POLYAK:
            polyak(f, a[1], a[2], a[3], a[4])
        elif code == RENEW_COPY:
            renew_copy(f, n, a[1], a[2], a[3], a[4], a[5])
        elif code == STORE:
            store(f, n, a[1], a[2], a[3], a[4], a[5], a[6], a[7])
        elif code == RECALL:
            recall(f, n, a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8])
        elif code == LOOK:
            look(
                n, a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12], a[13], a[14], a[15],
                a[16], a[17], a[18],
            )  # fmt: skip
        elif code == PUSH:
            push(f, n, a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10])
        elif code == AUGMENT:
            augment(f, n, a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11])
        elif code == TRACE_SIZE:
            trace_size(f, s, a[1], a[2], a[3], a[4], a[5])
        elif code == FOLLOW_TRACE:
            follow_trace(f, s, a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8])
        elif code == FOLLOW_ALONE:
            follow_alone(f, s, a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8])
        elif code == SQUARED_NORM:
            squared_norm(f, s, a[1], a[2], a[3])
        elif code == GUARD:
            guard(f, s, a[1], a[2], a[3], a[4], a[5])
        elif code == SHORTEN:
            shorten(f, a[1], a[2], a[3])
        elif code == SQUARED_DISTANCE:
            squared_distance(f, s, a[1], a[2], a[3], a[4])
        elif code == BOUND:
            bound(f, s, n, a[1], a[2], a[3], a[4])
        elif code == DRAW_BACK:
            draw_back(f, a[1], a[2], a[3], a[4])
        elif code == PRODUCTS:
            products(f, s, n, a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11])
        elif code == UPDATE:
            update(f, n, a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10])
        elif code == DECAY:
            decay(f, s, a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8])
        elif code == OUTER_TRACE_SIZE:
            outer_trace_size(f, s, a[1], a[2], a[3], a[4], a[5], a[6], a[7])
        elif code == OUTER_SQUARED_NORM:
            outer_squared_norm(f, s, a[1], a[2], a[3], a[4], a[5], a[6])
        elif code == OUTER_PRODUCTS:
            outer_products(
                f, s, n, a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12], a[13], a[14],
                a[15], a[16], a[17], a[18], a[19], a[20],
            )  # fmt: skip
        elif code == OUTER_UPDATE:
            outer_update(
                f, s, n, a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12], a[13], a[14],
                a[15], a[16], a[17], a[18], a[19], a[20], a[21], a[22],
            )  # fmt: skip
        elif code == OUTER_DECAY:
            outer_decay(f, s, a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12])
        elif code == FACTORED_THROUGH:
            factored_through(f, n, a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12], a[13])
        elif code == FACTORED_BACK:
            factored_back(f, n, a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12], a[13])
        elif code == FACTORED_BOTH_WAYS:
            factored_both_ways(
                f, n, a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12], a[13], a[14], a[15],
                a[16],
            )  # fmt: skip
        elif code == FACTORED_MOVE:
            factored_move(
                f, s, n, a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12], a[13], a[14], a[15],
                a[16], a[17], a[18],
            )  # fmt: skip
        elif code == FACTORED_FLUSH:
            factored_flush(
                f, n, a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12], a[13], a[14],
            )  # fmt: skip
        elif code == SUM_GRAMS:
            sum_grams(s, a[1], a[2])
        elif code == COMBINE:
            combine(
                f, s, n, a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12], a[13], a[14], a[15],
                a[16], a[17],
            )  # fmt: skip
        elif code == COSINE_LOSS:
            cosine_loss(f, a[1], a[2], a[3], a[4], a[5], a[6], a[7])
        elif code == ROOT:
            root(f, s, a[1], a[2])
        elif code == OVERSHOOT:
            overshoot(f, s, a[1], a[2], a[3])
        elif code == SIZE_OF:
            size_of(f, a[1], a[2])
        elif code == COPY:
            copy(f, a[1], a[2], a[3])
        elif code == ADD:
            add(f, a[1], a[2], a[3])
        elif code == ZERO:
            zero(f, a[1], a[2])
        elif code == CLEAR:
            clear(s, a[1], a[2])
        elif code == COUNT_STEP:
            count_step(f, n, a[1], a[2], a[3], a[4], a[5], a[6], a[7])
        elif code == TALLY:
            tally(f, n, a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9])
    set_mode(mode)
    return FINE


@entry
def write_out(f, out, factors, lost, xs, ds, live, inputs, outputs, step, packed):
    """Adds what is kept as outer products to a matrix."""
    mode = flush_denormals()
    write_factors(f, out, factors, lost, xs, ds, live, inputs, outputs, step, packed)
    set_mode(mode)


@entry
def fill_uniform(key0, key1, out):
    """Uniform numbers for a key, as `jax.random.uniform` gives them."""
    uniform(np.uint64(key0), np.uint64(key1), out)


@entry
def hashed(key0, key1, x0, x1):
    """One evaluation of threefry2x32: what folds a number into a key, and what splits one."""
    a, b = threefry(np.uint64(key0), np.uint64(key1), np.uint64(x0), np.uint64(x1))
    return np.int64(a), np.int64(b)


@entry
def ask(flags, ticket):
    """Posts a ticket."""
    post(flags.ctypes.data, ticket)


@entry
def await_answer(flags):
    """Waits until the last ticket that was posted has been served."""
    while peek(flags.ctypes.data) != peek(flags.ctypes.data + 8):
        pass
