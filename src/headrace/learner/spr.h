/* Self-predictive representations: the loss of a window of transitions, and its gradient. */
#ifndef HR_SPR_H
#define HR_SPR_H

#include "networks.h"
#include "views.h"

#define SHORTEST 1e-3f /* a vector shorter than this counts as this long: no gradient explodes near 0 */

/* Actions taken: their numbers, or points of a box, one after the other; what they are not is absent. */
typedef struct {
    int32_t *number;
    float *point;
} taken;

/* The latent dynamics D: two layers; the action, one-hot or a point, the same at every place, acts as a bias of the first. */
typedef struct {
    int height, width, channels, actions, pad; /* pad: 1 for images, whose edges are reflected; 0 for vectors */
    convolution layer[2];                      /* of latents alone */
    size_t w[2], b[2], size;                   /* where they begin in the module, whose first layer has the actions too */
} dynamics;

typedef struct {
    int horizon, latent, hidden;
    dynamics net;
    float *view, *other_view;                 /* the image that z_0 is made of, and one of a later image */
    pass first, seen;                         /* the encoder's way with them */
    activation step[HR_MOST_HORIZON][2];      /* of D */
    float *padded[HR_MOST_HORIZON][2];        /* what came into its layers */
    float *plain, *turned[2], *bias;          /* D's weights without the actions', turned about; a bias for each action */
    float *of_point;                          /* the bias that a point makes of these; how it acted */
    float *plain_gradient, *action_gradient;
    float *rows_d;                            /* gradients by the latents, a row each, and by one padded latent */
    float *padded_d;
    float *projected, *guess, *guess_d;       /* rows of P's results with a one behind, of q's, and its gradient */
    float *projected_d;
} spr;

static int reflected(int i, int size) {
    if (size == 1) return 0;
    return i < 0 ? -i : i >= size ? 2 * size - 2 - i : i;
}

/* The latent with its edges reflected. */
static void pad_latent(const dynamics *net, const float *z, float *padded) {
    const int p = net->pad, wide = net->width + 2 * p;
    for (int i = 0; i < net->height + 2 * p; i++)
        for (int j = 0; j < wide; j++) {
            const int from = reflected(i - p, net->height) * net->width + reflected(j - p, net->width);
            copy(padded + (i * wide + j) * net->channels, z + from * net->channels, (size_t)net->channels);
        }
}

/* d <- the gradient by a latent, from that by the padded one. */
static void unpad_gradient(const dynamics *net, const float *padded, float *d) {
    const int p = net->pad, wide = net->width + 2 * p;
    fill(d, 0, (size_t)(net->height * net->width * net->channels));
    for (int i = 0; i < net->height + 2 * p; i++)
        for (int j = 0; j < wide; j++) {
            const int to = reflected(i - p, net->height) * net->width + reflected(j - p, net->width);
            const float *from = padded + (i * wide + j) * net->channels;
            for (int k = 0; k < net->channels; k++) d[to * net->channels + k] += from[k];
        }
}

static int taps_of(const dynamics *net) { return net->layer[0].kernel_height * net->layer[0].kernel_width; }

/* The first layer's weights, the latent's apart from the actions', and what each action adds everywhere; in a box what
 * each of its numbers adds, beside the biases. */
static void prepare_dynamics(const spr *s, const float *module, int box) {
    const dynamics *net = &s->net;
    const int c = net->channels, wide = c + net->actions;
    const float *w = module + net->w[0];
    for (int tap = 0; tap < taps_of(net); tap++)
        copy(s->plain + tap * c * c, w + tap * wide * c, (size_t)(c * c));
    for (int a = 0; a < net->actions; a++) {
        if (box) fill(s->bias + a * c, 0, (size_t)c);
        else copy(s->bias + a * c, module + net->b[0], (size_t)c);
        for (int tap = 0; tap < taps_of(net); tap++)
            for (int n = 0; n < c; n++) s->bias[a * c + n] += w[(tap * wide + c + a) * c + n];
    }
    turn(s->plain, inputs_of(&net->layer[0]), c, s->turned[0]);
    turn(module + net->w[1], inputs_of(&net->layer[1]), c, s->turned[1]);
}

/* A number of a point as it acts, which is within the box. */
static float acting(float x) { return x > 1 ? 1 : x < -1 ? -1 : x; }

/* What the action of step k adds everywhere. */
static const float *bias_of(const spr *s, const float *module, taken actions, int k) {
    const int c = s->net.channels, n = s->net.actions;
    if (actions.number) return s->bias + actions.number[k] * c;
    copy(s->of_point, module + s->net.b[0], (size_t)c);
    for (int a = 0; a < n; a++)
        for (int i = 0; i < c; i++) s->of_point[i] += acting(actions.point[k * n + a]) * s->bias[a * c + i];
    return s->of_point;
}

/* Adds the gradient by the action's weights, from d, that by the first layer's result. */
static void back_to_action(spr *s, taken actions, int k, const float *d) {
    const int c = s->net.channels, n = s->net.actions, places = s->net.height * s->net.width;
    float *sum = actions.number ? s->action_gradient + actions.number[k] * c : s->of_point;
    if (!actions.number) fill(sum, 0, (size_t)c);
    for (int m = 0; m < places; m++)
        for (int i = 0; i < c; i++) sum[i] += d[m * c + i];
    for (int a = 0; !actions.number && a < n; a++)
        for (int i = 0; i < c; i++) s->action_gradient[a * c + i] += acting(actions.point[k * n + a]) * sum[i];
}

/* rows[k] <- z_k, imagined from z_0 along the actions. */
static void imagine(spr *s, const float *module, taken actions, float *rows, int stride) {
    const dynamics *net = &s->net;
    const float *z = s->first.x;
    for (int k = 0; k < s->horizon; k++) {
        pad_latent(net, z, s->padded[k][0]);
        s->step[k][0].in = s->padded[k][0];
        convolve_forwards(&net->layer[0], s->plain, bias_of(s, module, actions, k), &s->step[k][0]);
        pad_latent(net, s->step[k][0].out, s->padded[k][1]);
        s->step[k][1].in = s->padded[k][1];
        convolve_forwards(&net->layer[1], module + net->w[1], module + net->b[1], &s->step[k][1]);
        z = s->step[k][1].out;
        copy(rows + k * stride, z, (size_t)s->latent);
        rows[k * stride + s->latent] = 1;
    }
}

/* The gradient by D, and d_0, that by z_0, from those by z_1 .. z_K in rows_d. */
static void back_through_dynamics(spr *s, taken actions, float *g, float *d_0, float *room) {
    const dynamics *net = &s->net;
    const int c = net->channels, wide = c + net->actions;
    fill(s->action_gradient, 0, (size_t)(net->actions * c));
    fill(d_0, 0, (size_t)s->latent);
    for (int k = s->horizon - 1; k >= 0; k--) {
        const int add = k < s->horizon - 1;
        float *d = s->rows_d + k * s->latent;
        for (int i = 0; i < s->latent; i++) d[i] += d_0[i];
        back_through_activation(&s->step[k][1], d, s->latent);
        convolve_back_to_weights(&net->layer[1], s->padded[k][1], d, g + net->w[1], g + net->b[1], add);
        convolve_back_to_image(&net->layer[1], s->turned[1], d, s->padded_d);
        unpad_gradient(net, s->padded_d, room);
        back_through_activation(&s->step[k][0], room, s->latent);
        convolve_back_to_weights(&net->layer[0], s->padded[k][0], room, s->plain_gradient, g + net->b[0], add);
        back_to_action(s, actions, k, room);
        convolve_back_to_image(&net->layer[0], s->turned[0], room, s->padded_d);
        unpad_gradient(net, s->padded_d, d_0);
    }
    for (int tap = 0; tap < taps_of(net); tap++) {
        copy(g + net->w[0] + tap * wide * c, s->plain_gradient + tap * c * c, (size_t)(c * c));
        copy(g + net->w[0] + (tap * wide + c) * c, s->action_gradient, (size_t)(net->actions * c));
    }
}

/* -cos(guess, truth), and its gradient by the guess, times `share`. */
static float negative_cosine(const float *guess, const float *truth, int n, float share, float *d) {
    const float a = dot(guess, guess, n), b = dot(truth, truth, n), both = dot(guess, truth, n);
    const float least = SHORTEST * SHORTEST, per_a = 1 / sqrtf(a > least ? a : least);
    const float per_b = 1 / sqrtf(b > least ? b : least), back = a > least ? both * per_a * per_a : 0;
    for (int i = 0; i < n; i++) d[i] = -share * per_a * per_b * (truth[i] - back * guess[i]);
    return -both * per_a * per_b;
}

/* The loss, from rows of P's results for guesses and truths (biases included), and the gradient by the guesses' rows. */
static float spr_loss(spr *s, int mean, const float *predictor, const float *guesses, const float *truths, int stride) {
    const int K = s->horizon, h = s->hidden, row = h + 1;
    const float share = mean ? 1.0f / (float)K : 1.0f;
    float loss = 0;
    for (int k = 0; k < K; k++) {
        copy(s->projected + k * row, guesses + k * stride, (size_t)h);
        s->projected[k * row + h] = 1;
    }
    fill(s->guess, 0, (size_t)(K * h));
    dense_forwards(predictor, row, h, s->projected, row, s->guess, h, K);
    for (int k = 0; k < K; k++) {
        loss += share * negative_cosine(s->guess + k * h, truths + k * stride, h, share, s->guess_d + k * h);
    }
    dense_back(predictor, h, h, s->guess_d, h, s->projected_d, h, K);
    return loss;
}

#endif
