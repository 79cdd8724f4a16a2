/* What the agent does: $title.
 * Written by `headrace export` from the run $run. */
#include "policy.h"

#include <math.h>

enum { AS_IT_IS, RELU, LEAKY_NORM };

/* A convolution without padding; a dense layer is one of a 1 x 1 image. Weights: [row][column][input][output]. */
typedef struct {
    int in_height, in_width, in_channels, kernel_height, kernel_width, stride_height, stride_width;
    int height, width, channels, activation;
    const float *w, *b;
} layer;

static int outputs_of(const layer *l) { return l->height * l->width * l->channels; }

/* LayerNorm over all of x, then LeakyReLU. */
static void normalise(float *x, int n) {
    float mean = 0, square = 0;
    for (int i = 0; i < n; i++) mean += x[i];
    mean /= (float)n;
    for (int i = 0; i < n; i++) square += (x[i] - mean) * (x[i] - mean);
    const float scale = 1.0f / sqrtf(square / (float)n + 1e-5f);
    for (int i = 0; i < n; i++) {
        const float normal = (x[i] - mean) * scale;
        x[i] = normal >= 0 ? normal : 0.01f * normal;
    }
}

static void activate(const layer *l, float *x) {
    const int n = outputs_of(l);
    if (l->activation == LEAKY_NORM) normalise(x, n);
    for (int i = 0; l->activation == RELU && i < n; i++) x[i] = x[i] > 0 ? x[i] : 0;
}

static void forward(const layer *l, const float *in, float *out) {
    const int run = l->kernel_width * l->in_channels; /* numbers of a window that lie side by side */
    for (int place = 0; place < l->height * l->width; place++) {
        const int row = place / l->width * l->stride_height, column = place % l->width * l->stride_width;
        float *sum = out + place * l->channels;
        const float *w = l->w;
        for (int n = 0; n < l->channels; n++) sum[n] = l->b[n];
        for (int i = 0; i < l->kernel_height; i++) {
            const float *x = in + ((row + i) * l->in_width + column) * l->in_channels;
            for (int k = 0; k < run; k++, w += l->channels)
                for (int n = 0; n < l->channels; n++) sum[n] += x[k] * w[n];
        }
    }
    activate(l, out);
}

$arrays

#define LIMIT $limit /* of standardised numbers; 0: none */

static const layer layers[] = {
$layers
};

static float standardised(float x, int i) {
    const float seen = ((x - mean[i]) - mean_rest[i]) / deviation[i];
    if (LIMIT > 0) return seen > LIMIT ? LIMIT : seen < -LIMIT ? -LIMIT : seen;
    return seen;
}

/* The oldest frame goes, the new one comes last; at an episode's beginning the new one stands for all. */
static void see(policy *p, const float *frame, int first) {
    for (int i = 0; i < POLICY_FRAME; i++) {
        float *at = p->observation + i / POLICY_CHANNELS * POLICY_CHANNELS * POLICY_FRAMES + i % POLICY_CHANNELS;
        const float seen = standardised(frame[i], i);
        for (int k = 0; k + 1 < POLICY_FRAMES; k++)
            at[k * POLICY_CHANNELS] = first ? seen : at[(k + 1) * POLICY_CHANNELS];
        at[(POLICY_FRAMES - 1) * POLICY_CHANNELS] = seen;
    }
}

int policy_act(policy *p, const float frame[POLICY_FRAME], int first) {
    const float *x = p->observation;
    int best = 0;
    see(p, frame, first);
    for (int i = 0; i < (int)(sizeof layers / sizeof *layers); i++) {
        forward(&layers[i], x, p->room[i % 2]);
        x = p->room[i % 2];
    }
    for (int a = 0; a < POLICY_ACTIONS; a++) {
        p->values[a] = POLICY_BOX && x[a] > 1 ? 1 : POLICY_BOX && x[a] < -1 ? -1 : x[a];
        if (x[a] > x[best]) best = a;
    }
    return POLICY_BOX ? 0 : best;
}
