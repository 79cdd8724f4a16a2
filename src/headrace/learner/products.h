/* Products of matrices: the one kernel of every convolution, forwards and back, and dense layers by rows.
 *
 * A convolution reads its windows where they lie in the image: a window is a few stretches of neighbouring numbers.
 */
#ifndef HR_PRODUCTS_H
#define HR_PRODUCTS_H

#include "vectors.h"

/* out[m][n] (+)= sum over segments s and places r of a_m[s * a_segment + r * a_step] * b[s * run + r][n].
 * Row m of a begins at (m / per) * a_big + (m % per) * a_small, and so for out. */
typedef struct {
    int rows, per, a_big, a_small, o_big, o_small;
    int segments, run, a_segment, a_step;
    int columns, b_stride;
    int add;
} hr_product;

INLINE void product_block(const hr_product *p, const int rows, const int vectors, const float *const *a,
                          const float *b, float *const *out, int columns) {
    vec sum[MOST_ROWS * 2][MOST_VECTORS];
    UNROLL
    for (int m = 0; m < rows; m++)
        UNROLL
        for (int v = 0; v < vectors; v++) sum[m][v] = (vec){0};
    for (int s = 0; s < p->segments; s++) {
        const int at = s * p->a_segment;
        for (int r = 0; r < p->run; r++, b += p->b_stride) {
            vec right[MOST_VECTORS];
            UNROLL
            for (int v = 0; v < vectors; v++) right[v] = load(b + v * LANES);
            UNROLL
            for (int m = 0; m < rows; m++) {
                const float left = a[m][at + r * p->a_step];
                UNROLL
                for (int v = 0; v < vectors; v++) sum[m][v] += left * right[v];
            }
        }
    }
    UNROLL
    for (int m = 0; m < rows; m++)
        UNROLL
        for (int v = 0; v < vectors; v++) {
            float *place = out[m] + v * LANES;
            const int here = columns - v * LANES;
            if (here >= LANES)
                store(place, p->add ? load(place) + sum[m][v] : sum[m][v]);
            else
                store_some(place, p->add ? load_some(place, here) + sum[m][v] : sum[m][v], here);
        }
}

#define HR_BLOCK(rows, vectors) \
    case rows: product_block(p, rows, vectors, a, b, out, columns); break;
#define HR_BLOCKS(vectors)                                                                            \
    static void product_rows_##vectors(const hr_product *p, int rows, const float *const *a, const float *b, \
                                       float *const *out, int columns) {                              \
        switch (rows) {                                                                               \
            HR_BLOCK(1, vectors) HR_BLOCK(2, vectors) HR_BLOCK(3, vectors) HR_BLOCK(4, vectors)       \
            HR_BLOCK(5, vectors) HR_BLOCK(6, vectors)                                                 \
        }                                                                                             \
    }
HR_BLOCKS(1)
HR_BLOCKS(2)
#if MOST_VECTORS > 2
HR_BLOCKS(3)
HR_BLOCKS(4)
#endif
static void product_rows_tall(const hr_product *p, const float *const *a, const float *b, float *const *out,
                              int columns) {
    product_block(p, 8, 1, a, b, out, columns);
}

/* Where a block's last vector is not full, numbers behind the row are read and come to nothing: every array of a
 * learner is followed by room for a vector. */
static void product(const hr_product *p, const float *a, const float *b, float *out) {
    const int wide = MOST_VECTORS * LANES;
    for (int n = 0; n < p->columns; n += wide) {
        const int columns = p->columns - n < wide ? p->columns - n : wide;
        const int vectors = (columns + LANES - 1) / LANES;
        const int most = vectors == 1 && LANES == 16 ? 8 : MOST_ROWS;
        for (int m = 0; m < p->rows; m += most) {
            const int rows = p->rows - m < most ? p->rows - m : most;
            const float *from[8] = {0};
            float *to[8] = {0};
            for (int i = 0; i < rows; i++) {
                const int big = (m + i) / p->per, small = (m + i) % p->per;
                from[i] = a + (ptrdiff_t)big * p->a_big + (ptrdiff_t)small * p->a_small;
                to[i] = out + (ptrdiff_t)big * p->o_big + (ptrdiff_t)small * p->o_small + n;
            }
            if (rows == 8) {
                product_rows_tall(p, from, b + n, to, columns);
                continue;
            }
            if (rows == 7) {
                product_rows_1(p, 1, from + 6, b + n, to + 6, columns);
            }
            const int some = rows == 7 ? 6 : rows;
            switch (vectors) {
                case 1: product_rows_1(p, some, from, b + n, to, columns); break;
                case 2: product_rows_2(p, some, from, b + n, to, columns); break;
#if MOST_VECTORS > 2
                case 3: product_rows_3(p, some, from, b + n, to, columns); break;
                case 4: product_rows_4(p, some, from, b + n, to, columns); break;
#endif
            }
        }
    }
}

/* The next `inputs` rows of w with one row x or two. */
INLINE void forwards_block(const float *w, const int inputs, int outputs, const float *x, int x_stride, float *y,
                           int y_stride, const int rows) {
    int n = 0;
    for (; n + LANES <= outputs; n += LANES) {
        vec right[8];
        UNROLL
        for (int k = 0; k < inputs; k++) right[k] = load(w + k * outputs + n);
        UNROLL
        for (int r = 0; r < rows; r++) {
            vec sum = load(y + r * y_stride + n);
            UNROLL
            for (int k = 0; k < inputs; k++) sum += x[r * x_stride + k] * right[k];
            store(y + r * y_stride + n, sum);
        }
    }
    for (; n < outputs; n++)
        for (int r = 0; r < rows; r++)
            for (int k = 0; k < inputs; k++) y[r * y_stride + n] += x[r * x_stride + k] * w[k * outputs + n];
}

/* y_r += sum_i x_r[i] w_i for a few rows x; the matrix w is walked through once, in order. */
static void dense_forwards(const float *w, int inputs, int outputs, const float *x, int x_stride, float *y,
                           int y_stride, int rows) {
    enum { BLOCK = LANES == 16 ? 8 : 4 };
    int i = 0;
    for (; i + BLOCK <= inputs; i += BLOCK, w += BLOCK * outputs) {
        int r = 0;
        for (; r + 2 <= rows; r += 2)
            forwards_block(w, BLOCK, outputs, x + r * x_stride + i, x_stride, y + r * y_stride, y_stride, 2);
        if (r < rows) forwards_block(w, BLOCK, outputs, x + r * x_stride + i, 0, y + r * y_stride, 0, 1);
    }
    for (; i < inputs; i++, w += outputs)
        for (int r = 0; r < rows; r++) forwards_block(w, 1, outputs, x + r * x_stride + i, 0, y + r * y_stride, 0, 1);
}

/* Inner products of LANES / rows rows of w with one row d or two, one row's behind the other's. */
INLINE vec back_block(const float *w, int outputs, const float *d, int d_stride, const int rows) {
    const int some = LANES / rows, whole = outputs / LANES * LANES;
    vec sum[LANES];
    UNROLL
    for (int k = 0; k < LANES; k++) sum[k] = (vec){0};
    for (int n = 0; n < whole; n += LANES)
        UNROLL
        for (int k = 0; k < some; k++) {
            const vec right = load(w + k * outputs + n);
            UNROLL
            for (int r = 0; r < rows; r++) sum[r * some + k] += load(d + r * d_stride + n) * right;
        }
    if (whole < outputs)
        for (int k = 0; k < some; k++) {
            const vec right = load_some(w + k * outputs + whole, outputs - whole);
            for (int r = 0; r < rows; r++)
                sum[r * some + k] += load_some(d + r * d_stride + whole, outputs - whole) * right;
        }
    return totals(sum);
}

/* dx_r[i] = w_i . d_r for a few rows d. */
static void dense_back(const float *w, int inputs, int outputs, const float *d, int d_stride, float *dx,
                       int dx_stride, int rows) {
    enum { HALF = LANES / 2 };
    int i = 0;
    for (; i + LANES <= inputs; i += LANES, w += LANES * outputs) {
        int r = 0;
        for (int half = 0; half < LANES; half += HALF)
            for (r = 0; r + 2 <= rows; r += 2) {
                float both[LANES], *out = dx + r * dx_stride + i + half;
                store(both, back_block(w + half * outputs, outputs, d + r * d_stride, d_stride, 2));
                copy(out, both, HALF), copy(out + dx_stride, both + HALF, HALF);
            }
        if (r < rows) store(dx + r * dx_stride + i, back_block(w, outputs, d + r * d_stride, 0, 1));
    }
    for (; i < inputs; i++, w += outputs)
        for (int r = 0; r < rows; r++) dx[r * dx_stride + i] = dot(w, d + r * d_stride, outputs);
}

/* y += x w and dx = w d, in one walk through the matrix; the last row of w, the biases, has no dx. */
static void dense_both_ways(const float *w, int inputs, int outputs, const float *x, float *y, const float *d,
                            float *dx) {
    int i = 0;
    for (; i + LANES <= inputs; i += LANES, w += LANES * outputs) {
        dense_forwards(w, LANES, outputs, x + i, 0, y, 0, 1);
        dense_back(w, LANES, outputs, d, 0, dx + i, 0, 1);
    }
    dense_forwards(w, inputs + 1 - i, outputs, x + i, 0, y, 0, 1);
    dense_back(w, inputs - i, outputs, d, 0, dx + i, 0, 1);
}

#endif
