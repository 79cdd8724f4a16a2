/* The networks: convolutions with a LayerNorm over the whole sample and LeakyReLU, forwards and back. */
#ifndef HR_NETWORKS_H
#define HR_NETWORKS_H

#include "learner.h"
#include "products.h"

#define LAYER_NORM_EPS 1e-5f
#define NEGATIVE_SLOPE 0.01f

/* One convolution without padding: sizes of what comes in, of its windows, and of what comes out. */
typedef struct {
    int in_height, in_width, in_channels, kernel_height, kernel_width, stride_height, stride_width;
    int height, width, channels;
    size_t w, b; /* where its weights and biases begin in the module */
} convolution;

static int inputs_of(const convolution *c) { return c->kernel_height * c->kernel_width * c->in_channels; }
static int places_of(const convolution *c) { return c->height * c->width; }
static int outputs_of(const convolution *c) { return places_of(c) * c->channels; }
static int image_of(const convolution *c) { return c->in_height * c->in_width * c->in_channels; }

/* Whether its one window is the whole image. */
static int is_dense(const convolution *c) {
    return c->in_height == c->kernel_height && c->in_width == c->kernel_width;
}

/* What a layer made of its input, as its gradient needs it. */
typedef struct {
    const float *in;
    float *normal; /* after the LayerNorm */
    float *out;    /* after the activation */
    float scale;   /* 1 / standard deviation before the LayerNorm */
} activation;

/* normal <- (x - mean) / sqrt(var + eps) in place, out <- LeakyReLU(normal). */
static float normalise_layer(float *x, float *out, int n) {
    vec sum = {0};
    int i = 0;
    float rest = 0;
    for (; i + LANES <= n; i += LANES) sum += load(x + i);
    for (; i < n; i++) rest += x[i];
    const float mean = (total(sum) + rest) / (float)n;
    vec square = {0};
    rest = 0;
    for (i = 0; i + LANES <= n; i += LANES) {
        const vec centred = load(x + i) - mean;
        square += centred * centred;
    }
    for (; i < n; i++) rest += (x[i] - mean) * (x[i] - mean);
    const float scale = 1.0f / sqrtf((total(square) + rest) / (float)n + LAYER_NORM_EPS);
    for (i = 0; i < n; i++) {
        const float normal = (x[i] - mean) * scale;
        x[i] = normal;
        out[i] = normal >= 0 ? normal : NEGATIVE_SLOPE * normal;
    }
    return scale;
}

/* d <- the gradient by what came into the LayerNorm, from that by what came out of the activation; in place. */
static void back_through_activation(const activation *a, float *d, int n) {
    vec sum = {0}, along = {0};
    float rest = 0, rest_along = 0;
    int i = 0;
    for (i = 0; i < n; i++) d[i] = a->normal[i] >= 0 ? d[i] : NEGATIVE_SLOPE * d[i];
    for (i = 0; i + LANES <= n; i += LANES) {
        sum += load(d + i);
        along += load(d + i) * load(a->normal + i);
    }
    for (; i < n; i++) rest += d[i], rest_along += d[i] * a->normal[i];
    const float mean = (total(sum) + rest) / (float)n, mean_along = (total(along) + rest_along) / (float)n;
    const float scale = a->scale;
    for (i = 0; i < n; i++) d[i] = scale * (d[i] - mean - a->normal[i] * mean_along);
}

/* a->out <- activation of the convolution of a->in; `bias` stands for the layer's own. */
static void convolve_forwards(const convolution *c, const float *w, const float *bias, activation *a) {
    const int row = c->in_width * c->in_channels;
    if (is_dense(c)) {
        copy(a->normal, bias, (size_t)c->channels);
        dense_forwards(w, inputs_of(c), c->channels, a->in, 0, a->normal, 0, 1);
    } else {
        const hr_product p = {
            .rows = places_of(c), .per = c->width, .a_big = c->stride_height * row,
            .a_small = c->stride_width * c->in_channels, .o_big = c->width * c->channels, .o_small = c->channels,
            .segments = c->kernel_height, .run = c->kernel_width * c->in_channels, .a_segment = row, .a_step = 1,
            .columns = c->channels, .b_stride = c->channels,
        };
        product(&p, a->in, w, a->normal);
        for (int m = 0; m < places_of(c); m++)
            for (int n = 0; n < c->channels; n++) a->normal[m * c->channels + n] += bias[n];
    }
    a->scale = normalise_layer(a->normal, a->out, outputs_of(c));
}

/* The gradient by weights and biases, written to g_w and g_b or added, from d, that by the convolution's result. */
static void convolve_back_to_weights(const convolution *c, const float *in, const float *d, float *g_w, float *g_b,
                                     int add) {
    const int row = c->in_width * c->in_channels, run = c->kernel_width * c->in_channels;
    const hr_product p = {
        .rows = inputs_of(c), .per = run, .a_big = row, .a_small = 1, .o_big = run * c->channels,
        .o_small = c->channels, .segments = c->height, .run = c->width, .a_segment = c->stride_height * row,
        .a_step = c->stride_width * c->in_channels, .columns = c->channels, .b_stride = c->channels, .add = add,
    };
    product(&p, in, d, g_w);
    if (!add) fill(g_b, 0, (size_t)c->channels);
    for (int m = 0; m < places_of(c); m++)
        for (int n = 0; n < c->channels; n++) g_b[n] += d[m * c->channels + n];
}

/* turned[n][k] <- w[k][n] */
static void turn(const float *w, int inputs, int outputs, float *turned) {
    const int rows = inputs / LANES * LANES, columns = outputs / LANES * LANES;
    for (int k = 0; k < rows; k += LANES)
        for (int n = 0; n < columns; n += LANES) {
            vec block[LANES];
            UNROLL
            for (int i = 0; i < LANES; i++) block[i] = load(w + (k + i) * outputs + n);
            transpose(block);
            UNROLL
            for (int i = 0; i < LANES; i++) store(turned + (n + i) * inputs + k, block[i]);
        }
    for (int k = 0; k < inputs; k++)
        for (int n = k < rows ? columns : 0; n < outputs; n++) turned[n * inputs + k] = w[k * outputs + n];
}

/* dx <- the gradient by the image; `turned` are the weights, inputs and outputs changed about. */
static void convolve_back_to_image(const convolution *c, const float *turned, const float *d, float *dx) {
    const int inputs = inputs_of(c), run = c->kernel_width * c->in_channels, row = c->in_width * c->in_channels;
    fill(dx, 0, (size_t)image_of(c));
    for (int i = 0; i < c->kernel_height; i++) {
        const hr_product p = {
            .rows = places_of(c), .per = c->width, .a_big = c->width * c->channels, .a_small = c->channels,
            .o_big = c->stride_height * row, .o_small = c->stride_width * c->in_channels,
            .segments = 1, .run = c->channels, .a_step = 1, .columns = run, .b_stride = inputs, .add = 1,
        };
        product(&p, d, turned + i * run, dx + i * row);
    }
}

typedef struct {
    int layers, latent, hidden, relu;
    int outputs, heads, biased; /* numbers that a layer of the head gives, such layers, whether they have biases */
    convolution encoder[HR_MOST_LAYERS];
} architecture;

/* One observation's way through a network. */
typedef struct {
    activation layer[HR_MOST_LAYERS];
    float *x;       /* the latent, and a one behind it for the projection's bias */
    float *d;       /* gradient by the projection's result */
    activation top; /* projection, LayerNorm, activation */
    float *q; /* what the head gives, layer by layer */
} pass;

static void encode(const architecture *net, const float *encoder, const float *obs, pass *p) {
    for (int l = 0; l < net->layers; l++) {
        const convolution *c = &net->encoder[l];
        p->layer[l].in = l ? p->layer[l - 1].out : obs;
        convolve_forwards(c, encoder + c->w, encoder + c->b, &p->layer[l]);
    }
    copy(p->x, p->layer[net->layers - 1].out, (size_t)net->latent);
    p->x[net->latent] = 1;
}

static size_t head_size(const architecture *net) {
    return (size_t)(net->heads * (net->hidden + net->biased) * net->outputs);
}

/* One observation seen by two networks through one encoder: the second one's way begins with the first one's latent. */
static void see_through(const pass *of, pass *p) {
    memcpy(p->layer, of->layer, sizeof p->layer);
    p->x = of->x;
}

/* Q(s, .), V(s) or what a policy is made of, from what the projection made of the latent. */
static void finish(const architecture *net, const float *head, pass *p) {
    const int hidden = net->hidden, outputs = net->outputs;
    if (net->relu)
        for (int i = 0; i < hidden; i++) p->top.out[i] = p->top.normal[i] > 0 ? p->top.normal[i] : 0;
    else
        p->top.scale = normalise_layer(p->top.normal, p->top.out, hidden);
    for (int k = 0; k < net->heads; k++, head += (hidden + net->biased) * outputs) {
        float *q = p->q + k * outputs;
        fill(q, 0, (size_t)outputs);
        for (int i = 0; i < hidden; i++)
            for (int a = 0; a < outputs; a++) q[a] += p->top.out[i] * head[i * outputs + a];
        for (int a = 0; net->biased && a < outputs; a++) q[a] += head[hidden * outputs + a];
    }
}

static void project(const architecture *net, const float *projection, pass *p) {
    fill(p->top.normal, 0, (size_t)net->hidden);
    dense_forwards(projection, net->latent + 1, net->hidden, p->x, 0, p->top.normal, 0, 1);
}

/* p->d, the gradient by the projection's result, from that by the units before the head. */
static void back_through_top(const architecture *net, pass *p) {
    if (!net->relu)
        back_through_activation(&p->top, p->d, net->hidden);
    else
        for (int i = 0; i < net->hidden; i++) p->d[i] = p->top.normal[i] > 0 ? p->d[i] : 0;
}

/* p->d from one number that the head gives, Q(s, a) or V(s). */
static void back_from_head(const architecture *net, const float *head, int output, pass *p) {
    for (int i = 0; i < net->hidden; i++) p->d[i] = head[i * net->outputs + output];
    back_through_top(net, p);
}

/* p->d, and g, the head's gradient, from `slope`, the gradient by all the numbers that it gives. */
static void back_from_all(const architecture *net, const float *head, const float *slope, pass *p, float *g) {
    const int hidden = net->hidden, outputs = net->outputs;
    fill(p->d, 0, (size_t)hidden);
    for (int k = 0; k < net->heads; k++, slope += outputs) {
        for (int i = 0; i < hidden; i++, head += outputs, g += outputs)
            for (int a = 0; a < outputs; a++) {
                p->d[i] += slope[a] * head[a];
                g[a] = p->top.out[i] * slope[a];
            }
        if (!net->biased) continue;
        copy(g, slope, (size_t)outputs);
        head += outputs, g += outputs;
    }
    back_through_top(net, p);
}

/* The weights of all layers but the first turned about, as gradients on their way back need them. */
static void turn_encoder(const architecture *net, const float *encoder, float *turned) {
    for (int l = 1; l < net->layers; l++) {
        const convolution *c = &net->encoder[l];
        turn(encoder + c->w, inputs_of(c), c->channels, turned + c->w);
    }
}

/* g <- the encoder's gradient, from `d`, that by the latent, which is spent; `other` is room. */
static void back_through_encoder(const architecture *net, const float *turned, const pass *p, float *d, float *other,
                                 float *g) {
    for (int l = net->layers - 1; l >= 0; l--) {
        const convolution *c = &net->encoder[l];
        back_through_activation(&p->layer[l], d, outputs_of(c));
        convolve_back_to_weights(c, p->layer[l].in, d, g + c->w, g + c->b, 0);
        if (!l) return;
        convolve_back_to_image(c, turned + c->w, d, other);
        float *spent = d;
        d = other, other = spent;
    }
}

#endif
