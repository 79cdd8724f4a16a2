/* What an actor's outputs stand for: how an action is drawn, how likely it was, and how both change with the outputs. */
#ifndef HR_POLICIES_H
#define HR_POLICIES_H

#include "vectors.h"
#include "views.h"

#define POLICY_DRAWS 2 /* uniform numbers for each action, or number of it: for a draw, for a random one */
#define LEAST 0x1p-24f /* nearer to -1 than this, no number is that float32 has */

/* log pi(a|s), the entropy of pi(.|s), and the gradients of both by the outputs. */
typedef struct {
    float log_pi, entropy, *by_log_pi, *by_entropy;
} likelihood;

/* pi(a|s) proportional to exp of a preference:
 * d log pi(a) / d p_b = 1{a = b} - pi_b,  d H / d p_b = - pi_b (log pi_b + H). */
static void softmax_at(const float *preference, int n, int action, likelihood *of) {
    float most = preference[0], sum = 0;
    for (int b = 1; b < n; b++) most = preference[b] > most ? preference[b] : most;
    for (int b = 0; b < n; b++) sum += expf(preference[b] - most);
    const float log_sum = logf(sum);
    of->log_pi = preference[action] - most - log_sum, of->entropy = 0;
    for (int b = 0; b < n; b++) {
        const float log_pi = preference[b] - most - log_sum, pi = expf(log_pi);
        of->by_log_pi[b] = (float)(b == action) - pi;
        of->entropy -= pi * log_pi;
    }
    for (int b = 0; b < n; b++) {
        const float log_pi = preference[b] - most - log_sum;
        of->by_entropy[b] = -expf(log_pi) * (log_pi + of->entropy);
    }
}

static float softplus(float x) { return (x > 0 ? x : 0) + log1pf(expf(-fabsf(x))); }

/* A normal distribution for each number, with the mean m and the scale s = softplus(o), d s / d o = 1 / (1 + exp(-o)):
 * d log pi / d m = (a - m) / s^2,  d log pi / d s = ((a - m)^2 / s^2 - 1) / s,  d H / d s = 1 / s. */
static void gaussian_at(const float *mean, const float *output, int n, const float *point, likelihood *of) {
    const float half_log_2_pi = 0.918938533f, half_log_2_pi_e = 1.418938533f;
    of->log_pi = of->entropy = 0;
    for (int i = 0; i < n; i++) {
        const float scale = softplus(output[i]), slope = 1 / (1 + expf(-output[i]));
        const float away = (point[i] - mean[i]) / scale, log_scale = logf(scale);
        of->log_pi += -0.5f * away * away - log_scale - half_log_2_pi;
        of->entropy += log_scale + half_log_2_pi_e;
        of->by_log_pi[i] = away / scale, of->by_log_pi[n + i] = (away * away - 1) / scale * slope;
        of->by_entropy[i] = 0, of->by_entropy[n + i] = slope / scale;
    }
}

/* Preferences with Gumbel's noise: the highest is action a with probability pi(a|s). */
static void add_noise(const float *preference, int n, const float *uniform, float *noisy) {
    for (int a = 0; a < n; a++) {
        const float u = uniform[POLICY_DRAWS * a];
        noisy[a] = preference[a] - logf(-logf(u > LEAST ? u : LEAST));
    }
}

/* A number from N(mean, scale^2); the mean where `uniform` is 1/2. */
static float draw_normal(float mean, float scale, float uniform) {
    const float x = 2 * uniform - 1;
    return mean + scale * (sqrtf(2.0f) * inverse_erf(x > LEAST - 1 ? x : LEAST - 1));
}

#endif
