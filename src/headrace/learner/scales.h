/* Running scales of observations and rewards, exact for as long as a stream lasts: a statistic is the sum of two
 * float32 numbers, which is computed in float64. */
#ifndef HR_SCALES_H
#define HR_SCALES_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#define SCALE_EPS 1e-8f

typedef struct {
    int32_t *count;
    float *mean, *mean_rest, *squares, *squares_rest;
} moments;

/* Welford's update with one more sample. */
static void include(const moments *m, const float *sample, int n) {
    if (*m->count < INT32_MAX) ++*m->count;
    const double count = (double)*m->count;
    for (int i = 0; i < n; i++) {
        const double before = (double)m->mean[i] + m->mean_rest[i], off = sample[i] - before;
        const double mean = before + off / count;
        const double squares = (double)m->squares[i] + m->squares_rest[i] + off * (sample[i] - mean);
        m->mean[i] = (float)mean, m->mean_rest[i] = (float)(mean - m->mean[i]);
        m->squares[i] = (float)squares, m->squares_rest[i] = (float)(squares - m->squares[i]);
    }
}

/* 1 / sqrt(var + eps), with n - 1, and variance 1 while there are fewer than two samples. */
static float per_deviation(const moments *m, int i) {
    const float variance = *m->count >= 2 ? (m->squares[i] + m->squares_rest[i]) / (float)(*m->count - 1) : 1.0f;
    return 1.0f / sqrtf(variance + SCALE_EPS);
}

/* (x - mean) / sqrt(var + eps), limited where there is a limit. */
static void standardise(const moments *m, const float *restrict x, float *restrict out, int n, float limit) {
    const float *restrict mean = m->mean, *restrict rest = m->mean_rest;
    const float *restrict squares = m->squares, *restrict squares_rest = m->squares_rest;
    const float others = (float)(*m->count - 1), known = *m->count >= 2;
    for (int i = 0; i < n; i++) {
        const float variance = known ? (squares[i] + squares_rest[i]) / others : 1.0f;
        out[i] = ((x[i] - mean[i]) - rest[i]) * (1.0f / sqrtf(variance + SCALE_EPS));
    }
    if (limit > 0)
        for (int i = 0; i < n; i++) out[i] = out[i] > limit ? limit : out[i] < -limit ? -limit : out[i];
}

#endif
