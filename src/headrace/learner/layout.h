/* Where everything lies: one block of memory, laid out from the description alone. */
#ifndef HR_LAYOUT_H
#define HR_LAYOUT_H

#include "learner.h"
#include "modules.h"
#include "networks.h"
#include "policies.h"
#include "random.h"
#include "scales.h"
#include "spr.h"

#define SEEN_STATES 8 /* observations that sight is measured on, ... */
#define SEEN_EVERY 125 /* ... so many steps apart */
#define STEP_DRAWS 3  /* explore, action, replay */

/* What a step reports, in the order in which one becomes infinite through another; the last is not watched. */
enum {
    REWARD, Q, H, TD_ERROR, Q_GRADIENT_NORM, TD_UPDATE_NORM, H_UPDATE_NORM, AUX_LOSS, ACTOR_STEP_SIZE,
    ACTOR_UPDATE_NORM, AUX_GUARDED, AUX_UPDATE_NORM, COSINE_BEFORE_ORTH, COSINE_BEFORE_ORTH2, ENTROPY, EPSILON, GUARDED,
    LOG_PI, STEP_SIZE, OVERSHOOT, METRICS
};
static const char *const METRIC_NAMES[METRICS] = {
    "reward", "q", "h", "td_error", "q_gradient_norm", "td_update_norm", "h_update_norm", "aux_loss", "actor_step_size",
    "actor_update_norm", "aux_guarded", "aux_update_norm", "cosine_before_orth", "cosine_before_orth2", "entropy",
    "epsilon", "guarded", "log_pi", "step_size", "overshoot",
};
static int is_of_aux(int metric) {
    return metric == AUX_LOSS || (metric >= AUX_GUARDED && metric <= COSINE_BEFORE_ORTH2);
}
static int is_of_actor(int metric) {
    return metric == ACTOR_STEP_SIZE || metric == ACTOR_UPDATE_NORM || metric == ENTROPY || metric == LOG_PI;
}

/* The modules of Q or V, the auxiliary's own, and those of a second network: h, or the actor. */
enum {
    ENCODER, PROJECTION, HEAD, AUX_PROJECTION, DYNAMICS, PREDICTOR, SECOND_ENCODER, SECOND_PROJECTION, SECOND_HEAD,
    MODULES
};
static const char *const MODULE_NAMES[] = {
    "encoder", "projection", "head", "aux_projection", "dynamics", "predictor", "h_encoder", "h_projection", "h_head",
    "pi_encoder", "pi_projection", "pi_head",
};
static const char *name_of(const hr_config *c, int which) {
    return MODULE_NAMES[which >= SECOND_ENCODER && c->rule == HR_ACTOR_CRITIC ? which + 3 : which];
}
static int has_second(const hr_config *c) { return c->rule == HR_QRC || c->rule == HR_ACTOR_CRITIC; }

/* Whether the rule goes along a trace as far as a step size says. */
static int is_sized(const hr_config *c) { return c->rule == HR_STREAM_Q || c->rule == HR_ACTOR_CRITIC; }
static const hr_step_size *step_size_of(const hr_config *c, int second) {
    return second ? &c->actor_step_size : &c->step_size;
}

/* What is learnt from, by slot where transitions are kept. */
typedef struct {
    float *obs, *next_obs, *reward;
    int32_t *action;
    uint8_t *terminated, *truncated, *last, *greedy;
} transitions;

/* What HR_INTENTIONAL keeps beside the squares. */
typedef struct {
    int32_t *steps;
    float *spread, *error;
} intended;

struct hr_learner {
    uint32_t format, size;
    hr_config config;
    hr_learner *self; /* where the pointers below were made */
    hr_key key;
    architecture net, second_net;
    int frame, observation, dense_rows;

    /* saved */
    module modules[MODULES];
    float *td_target[3], *aux_target[2]; /* encoder, projection, head */
    float *h_trace;
    intended intended[2]; /* of both networks */
    transitions memory;
    int32_t *inserted;
    float *window;
    taken window_actions;
    int32_t *window_held;
    int32_t *step;
    moments obs_scale, reward_scale;
    float *discounted, *obs;
    taken action;
    uint8_t *greedy;
    float *episode_return;
    int32_t *episode_length;
    int32_t *tally; /* steps, active steps, bad step, bad quantity */
    float *sums[METRICS], *seen;

    /* made anew at every step, or from what is saved */
    float *next_obs, *frame_room, *draws;
    float reward, epsilon;
    int cut, active, room_draws; /* cut: traces count as zero, whatever is written there */
    float metrics[METRICS];
    hr_episode finished;
    pass acting, following, bootstrap, recalled, second, second_following;
    likelihood likelihood; /* of the action, where there is a policy */
    float *noisy;
    float *rows_x, *rows_y, *rows_d, *rows_dx; /* bootstrap, guesses, truths; slopes: bootstrap, guesses, Q(s, a) */
    int row_x, row_y;
    float *encoder_gradient[4]; /* Q(s, a) or V(s); max Q(s'), or what a shared encoder learns; h(s, a) or log pi; auxiliary */
    float *head_gradient[3];
    float *dynamics_gradient, *slope[2], *turned;
    float *nothing, *nowhere; /* rows of a projection's trace that was cut, or is */
    float *sorted; /* room for choosing the first weights */
    int32_t *places;
    spr spr;
    motion motion[2]; /* of both networks, ... */
    float reach[2];   /* ... how far their RL updates go along their directions, ... */
    float joined[2];  /* ... and how far a shared encoder moves: for both, for the actor */
};

#define FIRST_ARRAY ((sizeof(hr_learner) + 63) / 64 * 64)

typedef struct {
    char *base; /* absent while sizes are only counted */
    size_t used;
    int32_t wanted, count;
    hr_array *found;
} binder;

#ifdef HR_FENCED /* by builds with AddressSanitizer, which sees one block and not the arrays in it */
#include <sanitizer/asan_interface.h>
#define FENCE 256 /* bytes behind each array that nothing may touch */
static void fence(char *place, size_t size) { ASAN_POISON_MEMORY_REGION(place, size); }
static void unfence(void *block, size_t size) { ASAN_UNPOISON_MEMORY_REGION(block, size); }
#else
#define FENCE 0
static void fence(char *place, size_t size) { (void)place, (void)size; }
static void unfence(void *block, size_t size) { (void)block, (void)size; }
#endif

static void *bytes(binder *b, size_t n) {
    const size_t room = (n + 64 + 63) / 64 * 64; /* a vector's room behind */
    if (b->used > SIZE_MAX - room - FENCE) b->used = SIZE_MAX; /* and it stays: no memory is that large */
    if (b->used == SIZE_MAX) return 0;
    char *place = b->base ? b->base + b->used : 0;
    if (place) fence(place + room, FENCE);
    b->used += room + FENCE;
    return place;
}
static float *floats(binder *b, size_t n) { return bytes(b, n * sizeof(float)); }
static int32_t *wholes(binder *b, size_t n) { return bytes(b, n * sizeof(int32_t)); }

static void append(char *name, const char *more) {
    size_t n = strlen(name);
    while (*more && n < sizeof(((hr_array *)0)->name) - 1) name[n++] = *more++;
    name[n] = 0;
}

/* Notes an array of the saved state, its name in three parts. */
static void saved(binder *b, const char *a, const char *c, const char *d, int type, const void *place, int dimensions,
                  int s0, int s1, int s2, int s3) {
    if (b->count++ != b->wanted || !b->found) return;
    *b->found = (hr_array){.type = type, .dimensions = dimensions, .shape = {s0, s1, s2, s3}};
    append(b->found->name, "stream/");
    append(b->found->name, a), append(b->found->name, c), append(b->found->name, d);
    b->found->offset = (uint64_t)((const char *)place - b->base);
}

static float *saved_number(binder *b, const char *a, const char *c) {
    float *place = floats(b, 1);
    saved(b, a, c, "", HR_FLOAT32, place, 0, 0, 0, 0, 0);
    return place;
}
static int32_t *saved_whole(binder *b, const char *a, const char *c) {
    int32_t *place = wholes(b, 1);
    saved(b, a, c, "", HR_INT32, place, 0, 0, 0, 0, 0);
    return place;
}
static uint8_t *saved_flag(binder *b, const char *a, const char *c) {
    uint8_t *place = bytes(b, 1);
    saved(b, a, c, "", HR_BOOL, place, 0, 0, 0, 0, 0);
    return place;
}

/* An image, or a vector, or several of them. */
static float *saved_images(binder *b, const hr_config *c, const char *name, int many, int channels) {
    float *place = floats(b, (size_t)(many ? many : 1) * (size_t)(c->height * c->width * channels));
    const int s[] = {many, c->height, c->width, channels}, first = many ? 0 : 1;
    if (c->spatial)
        saved(b, name, "", "", HR_FLOAT32, place, 4 - first, s[first], s[first + 1], s[first + 2], many ? s[3] : 0);
    else
        saved(b, name, "", "", HR_FLOAT32, place, 2 - first, many ? many : channels, channels, 0, 0);
    return place;
}

/* An action, or several of them. */
static taken saved_actions(binder *b, const hr_config *c, const char *name, int many) {
    taken place = {0};
    const int first = many ? 0 : 1, s[] = {many, c->actions};
    if (c->box) place.point = floats(b, (size_t)(many ? many : 1) * (size_t)c->actions);
    else place.number = wholes(b, (size_t)(many ? many : 1));
    if (c->box) saved(b, name, "", "", HR_FLOAT32, place.point, 2 - first, s[first], many ? s[1] : 0, 0, 0);
    else saved(b, name, "", "", HR_INT32, place.number, 1 - first, many, 0, 0, 0);
    return place;
}

/* The layers of a module, as shapes of weights; 0 past the last one. */
static int layer_of(const hr_learner *l, int which, int i, int shape[4], int *biased) {
    const int second = which >= SECOND_ENCODER, kind = second ? which - SECOND_ENCODER : which;
    const architecture *net = second ? &l->second_net : &l->net;
    *biased = kind != HEAD || net->biased;
    const convolution *c = 0;
    int extra = 0;
    if (kind == ENCODER && i < l->net.layers) c = &l->net.encoder[i];
    if (kind == DYNAMICS && i < 2) c = &l->spr.net.layer[i], extra = i ? 0 : l->config.actions;
    if (c && l->config.spatial) {
        shape[0] = c->kernel_height, shape[1] = c->kernel_width;
        shape[2] = c->in_channels + extra, shape[3] = c->channels;
        return 4;
    }
    if (c) {
        shape[0] = c->in_channels + extra, shape[1] = c->channels;
        return 2;
    }
    if (i >= (kind == HEAD ? net->heads : 1) || kind == ENCODER || kind == DYNAMICS) return 0;
    shape[0] = kind == HEAD || kind == PREDICTOR ? l->net.hidden : l->net.latent;
    shape[1] = kind == HEAD ? net->outputs : l->net.hidden;
    return 2;
}

/* Room for arrays like a module's, saved under `group`; 0 for `group`: not saved. */
static float *module_arrays(binder *b, const hr_learner *l, const char *group, int which, const char *name) {
    int s[4] = {0}, biased, dimensions;
    size_t size = 0;
    for (int i = 0; (dimensions = layer_of(l, which, i, s, &biased)); i++) {
        size_t n = 1;
        for (int k = 0; k < dimensions; k++) n *= (size_t)s[k];
        size += n + (biased ? (size_t)s[dimensions - 1] : 0);
    }
    float *place = floats(b, size), *at = place;
    for (int i = 0; group && (dimensions = layer_of(l, which, i, s, &biased)); i++) {
        char tail[] = "/0/w";
        tail[1] = (char)('0' + i);
        char whole[64] = "";
        append(whole, name), append(whole, tail);
        size_t n = 1;
        for (int k = 0; k < dimensions; k++) n *= (size_t)s[k];
        saved(b, group, whole, "", HR_FLOAT32, at, dimensions, s[0], s[1], s[2], s[3]);
        if (at) at += n;
        whole[strlen(whole) - 1] = 'b';
        if (biased) {
            saved(b, group, whole, "", HR_FLOAT32, at, 1, s[dimensions - 1], 0, 0, 0);
            if (at) at += s[dimensions - 1];
        }
    }
    return place;
}

static convolution convolution_of(int height, int width, int channels, const hr_layer *layer, size_t *at, int extra) {
    convolution c = {
        .in_height = height, .in_width = width, .in_channels = channels, .kernel_height = layer->kernel_height,
        .kernel_width = layer->kernel_width, .channels = layer->channels,
        .stride_height = layer->stride_height < height ? layer->stride_height : height, /* a longer one leads nowhere */
        .stride_width = layer->stride_width < width ? layer->stride_width : width,
    };
    c.height = (height - c.kernel_height) / c.stride_height + 1, c.width = (width - c.kernel_width) / c.stride_width + 1;
    c.w = *at, c.b = c.w + (size_t)(c.kernel_height * c.kernel_width * (channels + extra) * c.channels);
    *at = c.b + (size_t)c.channels;
    return c;
}

static void plan_networks(hr_learner *l) {
    const hr_config *config = &l->config;
    architecture *net = &l->net;
    size_t at = 0;
    int height = config->height, width = config->width, channels = config->channels * config->frames;
    l->frame = height * width * config->channels, l->observation = height * width * channels;
    for (int i = 0; i < config->layers; i++) {
        net->encoder[i] = convolution_of(height, width, channels, &config->layer[i], &at, 0);
        height = net->encoder[i].height, width = net->encoder[i].width, channels = net->encoder[i].channels;
    }
    net->layers = config->layers, net->hidden = config->hidden;
    net->latent = height * width * channels, net->relu = config->head == HR_RELU;
    const int actor = config->rule == HR_ACTOR_CRITIC;
    net->outputs = actor ? 1 : config->actions, net->heads = 1, net->biased = actor;
    l->second_net = *net;
    if (actor) l->second_net.outputs = config->actions, l->second_net.heads = config->box ? 2 : 1;

    spr *s = &l->spr;
    dynamics *d = &s->net;
    s->horizon = config->aux.horizon, s->latent = net->latent, s->hidden = net->hidden;
    d->height = height, d->width = width, d->channels = channels, d->actions = config->actions;
    d->pad = config->spatial ? 1 : 0;
    const int kernel = config->spatial ? 3 : 1;
    const hr_layer layer = {kernel, kernel, 1, 1, channels};
    at = 0;
    for (int i = 0; i < 2; i++) {
        d->layer[i] = convolution_of(height + 2 * d->pad, width + 2 * d->pad, channels, &layer, &at, i ? 0 : d->actions);
        d->w[i] = d->layer[i].w, d->b[i] = d->layer[i].b;
    }
    d->size = at;
}

static size_t encoder_size(const architecture *net) {
    const convolution *last = &net->encoder[net->layers - 1];
    return last->b + (size_t)last->channels;
}

/* Room for an observation's way through a value network; without a projection, for its way to the latent. */
static pass encoder_pass(binder *b, const architecture *net) {
    pass p = {0};
    for (int i = 0; i < net->layers; i++) {
        p.layer[i].normal = floats(b, (size_t)outputs_of(&net->encoder[i]));
        p.layer[i].out = floats(b, (size_t)outputs_of(&net->encoder[i]));
    }
    p.x = floats(b, (size_t)net->latent + 1);
    return p;
}

static pass pass_of(binder *b, const architecture *net, int encodes) {
    pass p = {0};
    if (encodes) p = encoder_pass(b, net);
    p.d = floats(b, (size_t)net->hidden);
    p.top.normal = floats(b, (size_t)net->hidden), p.top.out = floats(b, (size_t)net->hidden);
    p.q = floats(b, (size_t)(net->heads * net->outputs));
    return p;
}

static int largest_image(const architecture *net) {
    int most = net->latent;
    for (int i = 0; i < net->layers; i++)
        if (image_of(&net->encoder[i]) > most && i) most = image_of(&net->encoder[i]);
    return most;
}

static size_t largest_fan_in(const hr_learner *l) {
    int s[4], biased, dimensions;
    size_t most = 0;
    for (int which = 0; which < MODULES; which++)
        for (int i = 0; (dimensions = layer_of(l, which, i, s, &biased)); i++) {
            size_t n = 1;
            for (int k = 0; k < dimensions - 1; k++) n *= (size_t)s[k];
            if (n > most) most = n;
        }
    return most;
}

static int shared_projection(const hr_config *c) { return c->aux.separate ? AUX_PROJECTION : PROJECTION; }

/* Where the trace of Q or V, or of the second network, is saved; 0: the rule has none. */
static const char *trace_group(const hr_config *c, int second) {
    switch (c->rule) {
        case HR_STREAM_Q: return "agent/td/trace/";
        case HR_QRC: return second ? "agent/td/h_grad_trace/" : "agent/td/q_grad_trace/";
        case HR_ACTOR_CRITIC: return second ? "agent/td/policy_trace/" : "agent/td/value_trace/";
        default: return 0;
    }
}

/* What a network's step size remembers is saved under this name. */
static void append_step_size(char name[64], int second, const char *more) {
    append(name, second ? "agent/td/actor_step_size/" : "agent/td/step_size/"), append(name, more);
}

/* The arrays by which a module learns values or a policy; none of them where the network is another agent's. */
static void bind_traces(binder *b, hr_learner *l, module *m, int kind) {
    const hr_config *c = &l->config;
    const char *plain = MODULE_NAMES[kind], *group = trace_group(c, m->second);
    const int step_size = is_sized(c) ? step_size_of(c, m->second)->kind : HR_SGD;
    char squares[64] = "";
    append_step_size(squares, m->second, step_size == HR_INTENTIONAL ? "square/" : "");
    const int which = kind + (m->second ? SECOND_ENCODER : 0);
    if (group) m->trace = module_arrays(b, l, group, which, plain);
    if (step_size == HR_ADAPTIVE || step_size == HR_INTENTIONAL) m->square = module_arrays(b, l, squares, which, plain);
}

static void bind_module(binder *b, hr_learner *l, int which) {
    const hr_config *c = &l->config;
    const int spr = c->aux.objective == HR_SPR, second = which >= SECOND_ENCODER;
    const int kind = second ? which - SECOND_ENCODER : which, shared = c->rule == HR_ACTOR_CRITIC && c->one_encoder;
    const char *name = name_of(c, which), *plain = MODULE_NAMES[kind];
    module *m = &l->modules[which];
    *m = (module){.name = name, .second = second};
    m->td = kind <= HEAD, m->in_q = m->td && !second, m->joined = shared && which == ENCODER;
    m->aux = spr && !second && (kind == ENCODER || kind == shared_projection(c) || kind > AUX_PROJECTION);
    if (!shared || which != SECOND_ENCODER) m->w = module_arrays(b, l, "agent/params/", which, name);
    if (m->td) bind_traces(b, l, m, kind);
    if (m->aux && c->aux.filter.history) m->history = module_arrays(b, l, "agent/aux/history/", kind, plain);
    if (m->in_q && c->td_filter.history) m->td_history = module_arrays(b, l, "agent/td_history/", kind, plain);
    if (m->in_q && m->aux && c->merge == HR_ORTH2_AVERAGE) m->average = module_arrays(b, l, "agent/merge/", kind, plain);

    int s[4], biased;
    layer_of(l, which, 0, s, &biased);
    const int flat = kind == ENCODER || kind == DYNAMICS || kind == HEAD;
    m->rows = flat ? 1 : s[0] + 1, m->columns = s[1];
    if (kind == ENCODER) m->columns = (int)encoder_size(&l->net);
    if (kind == DYNAMICS) m->columns = (int)l->spr.net.size;
    if (kind == HEAD) m->columns = (int)head_size(second ? &l->second_net : &l->net);
    m->run = c->rule == HR_STREAM_Q ? m->columns : 512; /* its sums stay as they were: runs go on to the bit */
}

static void bind_intended(binder *b, hr_learner *l, int second) {
    const char *const parts[] = {"steps", "spread", "error"};
    char names[3][64] = {"", "", ""};
    for (int i = 0; i < 3; i++) append_step_size(names[i], second, parts[i]);
    l->intended[second].steps = saved_whole(b, names[0], "");
    l->intended[second].spread = saved_number(b, names[1], "");
    l->intended[second].error = saved_number(b, names[2], "");
}

static const float ONE = 1;

/* Which inner products the filters, the merge and the bound need of each module. */
static void plan_measures(hr_learner *l) {
    const hr_config *c = &l->config;
    for (int i = 0; i < MODULES; i++) {
        module *m = &l->modules[i];
        if (!m->w) continue;
        const unsigned td = m->td ? HAS(R) | (m->td_history ? HAS(E) : 0) : 0;
        const unsigned aux = m->aux ? HAS(G) | (m->history ? HAS(C) : 0) : 0;
        const unsigned average = m->average ? HAS(M) : 0;
        m->measured = aux;
        if (m->td_history) m->measured |= td;
        if (i == ENCODER && m->aux) m->measured |= td;
        if (m->in_q && m->aux && c->merge != HR_AS_THEY_ARE) m->measured |= td | average;
        if (c->bound > 0) m->measured |= td;
        m->at_rest = m->td_history || c->bound > 0 ? td : 0;
    }
}

/* Whether a step of this agent reports the quantity. */
static int reports(const hr_config *c, int metric) {
    if (is_of_aux(metric)) return c->aux.objective == HR_SPR;
    if (metric == H || metric == H_UPDATE_NORM) return c->rule == HR_QRC;
    if (is_of_actor(metric)) return c->rule == HR_ACTOR_CRITIC;
    if (metric == STEP_SIZE) return is_sized(c);
    return !is_sized(c) || (metric != GUARDED && metric != OVERSHOOT);
}

/* Lays everything out; where `base` is absent, only counts. */
static void lay_out(binder *b, hr_learner *l) {
    const hr_config *c = &l->config;
    const architecture *net = &l->net;
    const int spr_on = c->aux.objective == HR_SPR, K = spr_on ? c->aux.horizon : 0;
    const int channels = c->channels * c->frames, actor = c->rule == HR_ACTOR_CRITIC;
    plan_networks(l);
    for (int i = 0; i < MODULES; i++) {
        const int exists = i <= HEAD || (i >= SECOND_ENCODER && has_second(c)) ||
                           (spr_on && (i == DYNAMICS || i == PREDICTOR || (i == AUX_PROJECTION && c->aux.separate)));
        if (exists) bind_module(b, l, i);
        else l->modules[i] = (module){0};
    }
    plan_measures(l);

    for (int i = 0; i < 3; i++)
        l->td_target[i] = c->target.kind ? module_arrays(b, l, "agent/td/target/", i, MODULE_NAMES[i]) : l->modules[i].w;
    const int projections[] = {ENCODER, shared_projection(c)};
    for (int i = 0; spr_on && i < 2; i++) {
        const int which = projections[i];
        l->aux_target[i] = c->aux.target.kind ? module_arrays(b, l, "agent/aux/target/", which, MODULE_NAMES[which])
                                              : l->modules[which].w;
    }
    for (int second = 0; second <= (c->rule == HR_ACTOR_CRITIC); second++)
        if (is_sized(c) && step_size_of(c, second)->kind == HR_INTENTIONAL) bind_intended(b, l, second);
    if (c->rule == HR_QRC) l->h_trace = saved_number(b, "agent/td/h_trace", "");
    const int kept = c->replay ? c->replay : 1;
    transitions *t = &l->memory;
    if (c->replay) {
        l->inserted = saved_whole(b, "agent/td/memory/inserted", "");
        t->obs = saved_images(b, c, "agent/td/memory/stored/obs", kept, channels);
        t->action = wholes(b, (size_t)kept);
        saved(b, "agent/td/memory/stored/action", "", "", HR_INT32, t->action, 1, kept, 0, 0, 0);
        t->reward = floats(b, (size_t)kept);
        saved(b, "agent/td/memory/stored/reward", "", "", HR_FLOAT32, t->reward, 1, kept, 0, 0, 0);
        t->next_obs = saved_images(b, c, "agent/td/memory/stored/next_obs", kept, channels);
        uint8_t **flags[] = {&t->terminated, &t->truncated, &t->last, &t->greedy};
        const char *const names[] = {"terminated", "truncated", "last", "greedy"};
        for (int i = 0; i < 4; i++) {
            *flags[i] = bytes(b, (size_t)kept);
            saved(b, "agent/td/memory/stored/", names[i], "", HR_BOOL, *flags[i], 1, kept, 0, 0, 0);
        }
    }
    if (spr_on) {
        const int slots = c->aux.ring ? K + 1 : K;
        l->window = saved_images(b, c, "agent/aux/window/observations", slots, channels);
        l->window_actions = saved_actions(b, c, "agent/aux/window/actions", slots);
        l->window_held = saved_whole(b, "agent/aux/window/held", "");
    }
    l->step = saved_whole(b, "agent/step", "");

    const char *const parts[] = {"mean", "mean_rest", "squares", "squares_rest"};
    float **of_obs[] = {&l->obs_scale.mean, &l->obs_scale.mean_rest, &l->obs_scale.squares, &l->obs_scale.squares_rest};
    float **of_reward[] = {
        &l->reward_scale.mean, &l->reward_scale.mean_rest, &l->reward_scale.squares, &l->reward_scale.squares_rest};
    l->obs_scale.count = saved_whole(b, "obs_scale/count", "");
    l->reward_scale.count = saved_whole(b, "reward_scale/moments/count", "");
    for (int i = 0; i < 4; i++) {
        char name[40] = "obs_scale/";
        append(name, parts[i]);
        *of_obs[i] = saved_images(b, c, name, 0, c->channels);
        *of_reward[i] = saved_number(b, "reward_scale/moments/", parts[i]);
    }
    l->discounted = saved_number(b, "reward_scale/discounted", "");
    l->obs = saved_images(b, c, "obs", 0, channels);
    l->action = saved_actions(b, c, "choice/action", 0);
    l->greedy = saved_flag(b, "choice/greedy", "");
    l->episode_return = saved_number(b, "episode_return", "");
    l->episode_length = saved_whole(b, "episode_length", "");
    l->tally = wholes(b, 4);
    const char *const tallies[] = {"tally/steps", "tally/active_steps", "tally/bad_step", "tally/bad_quantity"};
    for (int i = 0; i < 4; i++)
        saved(b, tallies[i], "", "", HR_INT32, l->tally ? l->tally + i : 0, 0, 0, 0, 0, 0);
    for (int i = 0; i < METRICS; i++) {
        if (!reports(c, i)) l->sums[i] = 0;
        else l->sums[i] = saved_number(b, is_of_aux(i) ? "tally/aux_sums/" : "tally/sums/", METRIC_NAMES[i]);
    }
    l->seen = saved_images(b, c, "seen", SEEN_STATES, channels);

    /* what is not saved */
    const int joined = l->modules[ENCODER].joined;
    l->next_obs = floats(b, (size_t)l->observation), l->frame_room = floats(b, (size_t)l->frame);
    l->room_draws = STEP_DRAWS + (spr_on ? VIEW_DRAWS * (K + 1) : 0) + (actor ? POLICY_DRAWS * c->actions : 0);
    l->draws = floats(b, (size_t)l->room_draws);
    l->acting = pass_of(b, net, 1), l->following = pass_of(b, net, 1), l->bootstrap = pass_of(b, net, 1);
    if (c->replay) l->recalled = pass_of(b, net, 1);
    if (has_second(c)) {
        l->second = pass_of(b, &l->second_net, !joined), l->second_following = pass_of(b, &l->second_net, !joined);
    }
    if (actor) {
        const size_t outputs = (size_t)(l->second_net.heads * l->second_net.outputs);
        l->likelihood.by_log_pi = floats(b, outputs), l->likelihood.by_entropy = floats(b, outputs);
        l->noisy = floats(b, (size_t)c->actions);
    }
    l->row_x = (net->latent + 1 + 15) / 16 * 16, l->row_y = (net->hidden + 15) / 16 * 16;
    l->rows_x = floats(b, (size_t)(l->row_x * (1 + 2 * K))), l->rows_y = floats(b, (size_t)(l->row_y * (1 + 2 * K)));
    l->rows_d = floats(b, (size_t)(l->row_y * (2 + K))), l->rows_dx = floats(b, (size_t)(l->row_x * (2 + K)));
    const size_t encoder = encoder_size(net);
    const int qrc = c->rule == HR_QRC;
    for (int i = 0; i < 4; i++)
        l->encoder_gradient[i] = i == 0 || (i == 1 && (qrc || joined)) || (i == 2 && has_second(c)) || (i == 3 && spr_on)
                                     ? floats(b, encoder) : 0;
    for (int i = 0; i < 3; i++)
        l->head_gradient[i] = i == 0 || (i == 1 && qrc) || (i == 2 && has_second(c))
                                  ? floats(b, head_size(i == 2 ? &l->second_net : net)) : 0;
    for (int i = 0; i < 2; i++) l->slope[i] = floats(b, (size_t)largest_image(net));
    l->turned = floats(b, encoder);
    l->nothing = floats(b, (size_t)net->hidden), l->nowhere = floats(b, (size_t)net->hidden);
    const size_t most = largest_fan_in(l);
    l->sorted = floats(b, most), l->places = wholes(b, 2 * most);
    if (!spr_on) return;
    spr *s = &l->spr;
    const dynamics *d = &s->net;
    const size_t plain = (size_t)(taps_of(d) * d->channels * d->channels), latent = (size_t)net->latent;
    const size_t padded = (size_t)image_of(&d->layer[0]), h = (size_t)net->hidden;
    s->view = floats(b, (size_t)l->observation), s->other_view = floats(b, (size_t)l->observation);
    s->first = encoder_pass(b, net), s->seen = encoder_pass(b, net);
    for (int k = 0; k < K; k++)
        for (int i = 0; i < 2; i++) {
            s->step[k][i].normal = floats(b, latent), s->step[k][i].out = floats(b, latent);
            s->padded[k][i] = floats(b, padded);
        }
    l->dynamics_gradient = floats(b, d->size);
    s->plain = floats(b, plain), s->plain_gradient = floats(b, plain);
    for (int i = 0; i < 2; i++) s->turned[i] = floats(b, plain);
    s->of_point = floats(b, (size_t)d->channels);
    s->bias = floats(b, (size_t)(d->actions * d->channels)), s->action_gradient = floats(b, (size_t)(d->actions * d->channels));
    s->rows_d = floats(b, (size_t)K * latent), s->padded_d = floats(b, padded);
    s->projected = floats(b, (size_t)K * (h + 1)), s->projected_d = floats(b, (size_t)K * h);
    s->guess = floats(b, (size_t)K * h), s->guess_d = floats(b, (size_t)K * h);
}

#endif
