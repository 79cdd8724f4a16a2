/* How modules move: inner products of their directions, then one pass over weights, trace and history.
 *
 * The gradient of a dense layer is a sum of outer products x d^T and is never written out: a row of it is x[i] d. A
 * module whose gradient is written out counts as one long row with x = 1.
 */
#ifndef HR_MODULES_H
#define HR_MODULES_H

#include "directions.h"
#include "vectors.h"

typedef struct {
    const float *x, *d; /* one number a row, and the row that it multiplies; absent without such a gradient */
    int count, x_stride, d_stride;
} outer;

/* What the RL update's direction is made of: terms along the trace, the gradients of Q(s, a) (or h) and of max Q(s'),
 * and the weights. */
typedef struct {
    float keep, trace, q, v, w;
    float square_keep, square_loses, weight, epsilon; /* the trace is divided by sqrt(square / weight) + epsilon */
    const float *nothing; /* a row of zeros, read in place of a trace that was cut; absent where none was */
    float *nowhere;       /* a row that is written in place of a trace that is cut now */
} motion;

typedef struct {
    const char *name;
    float *w, *trace, *square, *history, *td_history, *average; /* square: mean of the squared gradients of Q(s, a) */
    int rows, columns, run; /* run: so many numbers of a row are summed up before they join the rest */
    int td, aux, second, in_q; /* which streams move it; whether it belongs to h or pi, to Q or V */
    int joined; /* it learns from both networks: what stands in place of a gradient is its whole RL update */
    outer q, v, a;
    unsigned measured, at_rest; /* directions whose inner products are needed; without an auxiliary gradient */
    gram g;
    span update, next_history, next_td_history, next_average;
} module;

INLINE float *behind(float *array, size_t at) { return array ? array + at : array; }

#define HAS(direction) (1u << (direction))
enum { TRACE = 1, VALUE = 2, DECAY = 4, AUX = 8, HISTORY = 16, RARE = 32, NEXT = 64, TD = 128, METRIC = 256 };

static unsigned ways_of(const module *m, const motion *mo, int active) {
    unsigned ways = 0;
    if (m->td) ways |= TD;
    if (m->td && m->trace && !m->joined) ways |= TRACE;
    if (m->td && m->square && !m->joined) ways |= METRIC;
    if (m->td && m->v.x) ways |= VALUE;
    if (m->td && mo->w != 0) ways |= DECAY;
    if (m->aux && active) ways |= AUX;
    if (m->aux && m->history && active) ways |= HISTORY;
    if (m->td_history || m->average) ways |= RARE;
    return ways;
}

/* One stretch of a module's directions, LANES numbers or the last few of them. */
typedef struct {
    vec z, r, g, square, metric;
} stretch;

typedef struct {
    float q, v;
    const float *q_d, *v_d, *a_d;
    float a[HR_MOST_HORIZON];
    int count, a_stride;
} row;

INLINE vec take(const float *p, int n, const int whole) { return whole ? load(p) : load_some(p, n); }
INLINE void put(float *p, vec x, int n, const int whole) {
    if (whole) store(p, x);
    else store_some(p, x, n);
}

INLINE stretch directions_at(const unsigned ways, const int count, const motion *mo, const row *of, const float *w,
                             const float *z, const float *square, int i, int n, const int whole) {
    stretch s = {{0}, {0}, {0}, {0}, {0}};
    if (ways & TD) {
        const vec g_q = of->q * take(of->q_d + i, n, whole);
        if (ways & TRACE) {
            s.z = mo->keep * take(z + i, n, whole) + g_q;
            s.r = mo->trace * s.z;
        }
        if (ways & METRIC) {
            s.square = mo->square_keep * take(square + i, n, whole) + mo->square_loses * (g_q * g_q);
            s.metric = root(s.square / mo->weight) + mo->epsilon;
            s.r /= s.metric;
        }
        s.r += mo->q * g_q;
        if (ways & VALUE) s.r += (mo->v * of->v) * take(of->v_d + i, n, whole);
        if (ways & DECAY) s.r += mo->w * take(w + i, n, whole);
    }
    if (ways & AUX) {
        UNROLL
        for (int k = 0; k < count; k++) s.g += of->a[k] * take(of->a_d + k * of->a_stride + i, n, whole);
    }
    return s;
}

INLINE void row_of(const module *m, int r, row *of) {
    of->q = m->q.x ? m->q.x[r] : 0, of->q_d = m->q.d;
    of->v = m->v.x ? m->v.x[r] : 0, of->v_d = m->v.d;
    of->a_d = m->a.d, of->count = m->a.count, of->a_stride = m->a.d_stride;
    for (int k = 0; k < m->a.count; k++) of->a[k] = m->a.x[k * m->a.x_stride + r];
}

/* Where a row of the old trace is read, and of the new one written. */
INLINE const float *old_trace(const module *m, const motion *mo, size_t at) {
    return mo->nothing && m->rows > 1 ? mo->nothing : behind(m->trace, at);
}
INLINE float *new_trace(const module *m, const motion *mo, size_t at) {
    return mo->nowhere && m->rows > 1 ? mo->nowhere : behind(m->trace, at);
}

/* Inner products of all directions in `measured`. */
INLINE void measure_stretch(const module *m, const motion *mo, const unsigned ways, const unsigned measured,
                            const int count, const row *of, size_t at, int i, int n, const int whole,
                            vec sum[DIRECTIONS][DIRECTIONS]) {
    const float *z = old_trace(m, mo, at), *square = behind(m->square, at);
    const stretch s = directions_at(ways, count, mo, of, m->w + at, z, square, i, n, whole);
    vec x[DIRECTIONS] = {s.r, s.g, {0}, {0}, {0}};
    if (measured & HAS(C)) x[C] = take(m->history + at + i, n, whole);
    if (measured & HAS(E)) x[E] = take(m->td_history + at + i, n, whole);
    if (measured & HAS(M)) x[M] = take(m->average + at + i, n, whole);
    UNROLL
    for (int a = 0; a < DIRECTIONS; a++)
        UNROLL
        for (int b = a; b < DIRECTIONS; b++)
            if ((measured & HAS(a)) && (measured & HAS(b))) sum[a][b] += x[a] * x[b];
}

INLINE void measure_as(module *m, const motion *mo, const unsigned ways, const unsigned measured, const int count) {
    vec sum[DIRECTIONS][DIRECTIONS];
    memset(sum, 0, sizeof sum);
    for (int r = 0; r < m->rows; r++) {
        row of;
        row_of(m, r, &of);
        const size_t at = (size_t)r * (size_t)m->columns;
        vec of_row[DIRECTIONS][DIRECTIONS]; /* row by row: a long sum of small numbers would lose digits */
        memset(of_row, 0, sizeof of_row);
        int i = 0;
        for (; i + LANES <= m->columns; i += LANES)
            measure_stretch(m, mo, ways, measured, count, &of, at, i, LANES, 1, of_row);
        if (i < m->columns) measure_stretch(m, mo, ways, measured, count, &of, at, i, m->columns - i, 0, of_row);
        UNROLL
        for (int a = 0; a < DIRECTIONS; a++)
            UNROLL
            for (int b = a; b < DIRECTIONS; b++)
                if ((measured & HAS(a)) && (measured & HAS(b))) sum[a][b] += of_row[a][b];
    }
    for (int a = 0; a < DIRECTIONS; a++)
        for (int b = a; b < DIRECTIONS; b++) m->g.of[a][b] = m->g.of[b][a] = total(sum[a][b]);
}

/* The squared norm of a sum of outer products, from the inner products of their factors. */
static float squared_norm(const outer *o, int rows, int columns) {
    float sum = 0;
    for (int j = 0; j < o->count; j++)
        for (int k = 0; k <= j; k++) {
            const float xs = dot(o->x + j * o->x_stride, o->x + k * o->x_stride, rows);
            const float ds = dot(o->d + j * o->d_stride, o->d + k * o->d_stride, columns);
            sum += (j == k ? 1 : 2) * xs * ds;
        }
    return sum;
}

static void measure(module *m, const motion *mo, int active) {
    const unsigned ways = ways_of(m, mo, active), measured = active ? m->measured : m->at_rest;
    memset(&m->g, 0, sizeof m->g);
    if (!measured) return;
    if (measured == HAS(G)) {
        if (active) m->g.of[G][G] = squared_norm(&m->a, m->rows, m->columns);
        return;
    }
#define MEASURE(some, directions, many) \
    if (ways == (some) && measured == (directions) && m->a.count == (many)) { \
        measure_as(m, mo, (some), (directions), (many)); \
        return; \
    }
    MEASURE(AUX | HISTORY, HAS(G) | HAS(C), 5)
    MEASURE(TD | TRACE | AUX | HISTORY, HAS(G) | HAS(C), 5)
    MEASURE(TD | TRACE | VALUE | AUX | HISTORY, HAS(G) | HAS(C), 5)
    MEASURE(TD | TRACE | AUX | HISTORY, HAS(R) | HAS(G) | HAS(C), 5)
    MEASURE(AUX | HISTORY, HAS(G) | HAS(C), 1)
    MEASURE(TD | TRACE | AUX | HISTORY, HAS(R) | HAS(G) | HAS(C), 1)
    MEASURE(TD | TRACE | VALUE | AUX | HISTORY, HAS(R) | HAS(G) | HAS(C), 1)
#undef MEASURE
    measure_as(m, mo, ways, measured, m->a.count);
}

INLINE vec move_stretch(const module *m, const motion *mo, const unsigned ways, const int count, const row *of,
                        size_t at, const float *z, float *renewed, float next, float *y, int i, int n,
                        const int whole) {
    const span *u = &m->update;
    float *w = m->w + at + i, *c = behind(m->history, at + (size_t)i);
    float *square = behind(m->square, at);
    const stretch s = directions_at(ways, count, mo, of, m->w + at, z, square, i, n, whole);
    vec moved = take(w, n, whole);
    if (ways & TD) moved += u->of[R] * s.r;
    if (ways & AUX) moved += u->of[G] * s.g;
    if (ways & HISTORY) {
        const vec past = take(c, n, whole);
        moved += u->of[C] * past;
        put(c, m->next_history.of[C] * past + m->next_history.of[G] * s.g, n, whole);
    }
    if (ways & RARE) {
        float *e = behind(m->td_history, at + (size_t)i), *a = behind(m->average, at + (size_t)i);
        vec past = {0}, average = {0};
        if (m->td_history) {
            past = take(e, n, whole);
            put(e, m->next_td_history.of[E] * past + m->next_td_history.of[R] * s.r, n, whole);
        }
        if (m->average) {
            average = take(a, n, whole);
            const span *next_a = &m->next_average;
            put(a, next_a->of[M] * average + next_a->of[R] * s.r + next_a->of[E] * past, n, whole);
        }
        moved += u->of[E] * past + u->of[M] * average;
    }
    put(w, moved, n, whole);
    if (ways & TRACE) put(renewed + i, s.z, n, whole);
    if (ways & METRIC) put(square + i, s.square, n, whole);
    if (ways & NEXT) put(y + i, take(y + i, n, whole) + next * moved, n, whole);
    return s.r * s.r;
}

/* Weights, trace and histories of the next step; y += x_next w on the way, where there is a next input. Returns the
 * squared norm of the RL update's direction. */
INLINE float move_as(const module *m, const motion *mo, const unsigned ways, const int count, const float *x_next,
                     float *y) {
    vec square = {0};
    for (int r = 0; r < m->rows; r++) {
        row of;
        row_of(m, r, &of);
        const size_t at = (size_t)r * (size_t)m->columns;
        const float next = ways & NEXT ? x_next[r] : 0, *z = old_trace(m, mo, at);
        float *renewed = new_trace(m, mo, at);
        vec of_row = {0};
        int i = 0;
        for (; i + LANES <= m->columns; i += LANES)
            of_row += move_stretch(m, mo, ways, count, &of, at, z, renewed, next, y, i, LANES, 1);
        if (i < m->columns)
            of_row += move_stretch(m, mo, ways, count, &of, at, z, renewed, next, y, i, m->columns - i, 0);
        square += of_row;
    }
    return total(square);
}

static float move(const module *m, const motion *mo, int active, const float *x_next, float *y) {
    const unsigned ways = ways_of(m, mo, active) | (x_next ? NEXT : 0);
#define MOVE(some, many) \
    if (ways == (some) && m->a.count == (many)) return move_as(m, mo, (some), (many), x_next, y);
#define MOVES(some) \
    if (ways == (some)) return move_as(m, mo, (some), m->a.count, x_next, y);
#define MOVE_TD(some) \
    MOVES(TD | (some)) \
    MOVES(TD | NEXT | (some)) \
    MOVE(TD | NEXT | AUX | (some), 5) \
    MOVE(TD | NEXT | AUX | HISTORY | (some), 5)
    MOVE_TD(0)
    MOVE_TD(TRACE)
    MOVE_TD(TRACE | VALUE)
    MOVES(TD | TRACE | METRIC)
    MOVES(TD | TRACE | METRIC | NEXT)
    MOVES(TD | TRACE | DECAY)
    MOVES(TD | TRACE | DECAY | NEXT)
    MOVE(AUX, 1)
    MOVE(AUX | HISTORY, 1)
    MOVE(AUX, 5)
    MOVE(AUX | HISTORY, 5)
#undef MOVE
#undef MOVES
#undef MOVE_TD
    return move_as(m, mo, ways, m->a.count, x_next, y);
}

/* The sum of the sizes of a renewed trace, z <- keep z + gradient of Q(s, a). */
static float trace_size(const module *m, const motion *mo) {
    vec sum = {0};
    for (int r = 0; r < m->rows; r++) {
        const float *z = old_trace(m, mo, (size_t)r * (size_t)m->columns), x = m->q.x[r];
        for (int i = 0, end; i < m->columns; i = end) {
            end = i + m->run < m->columns ? i + m->run : m->columns;
            vec of_run = {0};
            for (; i + LANES <= end; i += LANES) of_run += magnitude(mo->keep * load(z + i) + x * load(m->q.d + i));
            if (i < end)
                of_run += magnitude(mo->keep * load_some(z + i, end - i) + x * load_some(m->q.d + i, end - i));
            sum += of_run;
        }
    }
    return total(sum);
}

/* Squared lengths in the metric: of the gradient of Q(s, a), and of the renewed trace. */
typedef struct {
    float gradient, trace;
} lengths;

static lengths lengths_of(const module *m, const motion *mo) {
    vec gradient = {0}, trace = {0};
    for (int r = 0; r < m->rows; r++) {
        row of;
        row_of(m, r, &of);
        const size_t at = (size_t)r * (size_t)m->columns;
        const float *z = old_trace(m, mo, at), *square = m->square + at;
        vec g_row = {0}, z_row = {0};
        for (int i = 0; i < m->columns; i += LANES) {
            const int n = m->columns - i < LANES ? m->columns - i : LANES;
            const stretch s = directions_at(TD | TRACE | METRIC, 0, mo, &of, 0, z, square, i, n, n == LANES);
            const vec g = of.q * take(of.q_d + i, n, n == LANES);
            g_row += g * g / s.metric, z_row += s.z * s.z / s.metric;
        }
        gradient += g_row, trace += z_row;
    }
    return (lengths){total(gradient), total(trace)};
}

#endif
