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

/* y_r += sum_i x_r[i] w_i for a few rows x; the matrix w is walked through once, in order. */
static void dense_forwards(const float *w, int inputs, int outputs, const float *x, int x_stride, float *y,
                           int y_stride, int rows) {
    int i = 0;
    for (; i + 4 <= inputs; i += 4, w += 4 * outputs) {
        for (int r = 0; r < rows; r++) {
            const float *in = x + r * x_stride + i;
            float *out = y + r * y_stride;
            int n = 0;
            for (; n + LANES <= outputs; n += LANES) {
                vec sum = load(out + n);
                UNROLL
                for (int k = 0; k < 4; k++) sum += in[k] * load(w + k * outputs + n);
                store(out + n, sum);
            }
            for (; n < outputs; n++)
                for (int k = 0; k < 4; k++) out[n] += in[k] * w[k * outputs + n];
        }
    }
    for (; i < inputs; i++, w += outputs)
        for (int r = 0; r < rows; r++)
            for (int n = 0; n < outputs; n++) y[r * y_stride + n] += x[r * x_stride + i] * w[n];
}

/* dx_r[i] = w_i . d_r for a few rows d. */
static void dense_back(const float *w, int inputs, int outputs, const float *d, int d_stride, float *dx,
                       int dx_stride, int rows) {
    int i = 0;
    const int whole = outputs / LANES * LANES;
    for (; i + LANES <= inputs; i += LANES, w += LANES * outputs) {
        for (int r = 0; r < rows; r++) {
            const float *in = d + r * d_stride;
            vec sum[LANES];
            UNROLL
            for (int k = 0; k < LANES; k++) sum[k] = (vec){0};
            for (int n = 0; n < whole; n += LANES) {
                const vec left = load(in + n);
                UNROLL
                for (int k = 0; k < LANES; k++) sum[k] += left * load(w + k * outputs + n);
            }
            if (whole < outputs) {
                const vec left = load_some(in + whole, outputs - whole);
                for (int k = 0; k < LANES; k++) sum[k] += left * load_some(w + k * outputs + whole, outputs - whole);
            }
            store(dx + r * dx_stride + i, totals(sum));
        }
    }
    for (; i < inputs; i++, w += outputs)
        for (int r = 0; r < rows; r++) dx[r * dx_stride + i] = dot(w, d + r * d_stride, outputs);
}

#endif
