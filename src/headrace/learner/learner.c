/* One agent on one stream: normalise, evaluate, learn, choose, keep account. */
#include "learner.h"

#include "checks.h"
#include "denormals.h"
#include "layout.h"
#include "rules.h"
#include "updates.h"

/* Randomness: everything random in a step follows from the seed and the number of the step. */

#define LATE (1 << 30)

static void draw_step(hr_learner *l) {
    const hr_config *c = &l->config;
    const hr_key key = hr_split(hr_fold_in(l->key, (uint32_t)*l->step), 0, 2);
    hr_uniform(key, l->draws, (size_t)l->room_draws);
    const float span = c->explore_fraction * c->steps, step = (float)*l->step;
    const float done = step < span ? step / (span > 1 ? span : 1) : 1;
    l->epsilon = c->explore_start + (c->explore_end - c->explore_start) * done;
}

/* The best action by q, or any with probability epsilon. */
static void choose_among(hr_learner *l, const float *q) {
    const int actions = l->config.actions, best = best_action(q, actions);
    const int any = (int)(l->draws[1] * (float)actions);
    *l->action.number = l->draws[0] < l->epsilon ? (any < actions ? any : actions - 1) : best;
    *l->greedy = *l->action.number == best;
}

/* A point drawn from the policy, or any with probability epsilon: finite, whatever has become of the parameters. */
static void choose_point(hr_learner *l, const float *uniform) {
    const int n = l->config.actions, at_random = l->draws[0] < l->epsilon;
    const float *mean = l->second.q, *output = mean + n;
    for (int i = 0; i < n; i++, uniform += POLICY_DRAWS) {
        const float x = at_random ? 2 * uniform[1] - 1 : draw_normal(mean[i], softplus(output[i]), uniform[0]);
        l->action.point[i] = isfinite(x) ? x : 0;
    }
    *l->greedy = !at_random;
}

static void choose(hr_learner *l) {
    const hr_config *c = &l->config;
    const float *of_policy = l->draws + l->room_draws - POLICY_DRAWS * c->actions;
    if (c->rule != HR_ACTOR_CRITIC) {
        choose_among(l, l->acting.q);
    } else if (c->box) {
        choose_point(l, of_policy);
    } else {
        add_noise(l->second.q, c->actions, of_policy, l->noisy);
        choose_among(l, l->noisy);
    }
}

/* Sparse initialisation: U(-1/sqrt(fan_in), 1/sqrt(fan_in)); for each output unit ceil(0.9 fan_in) inputs, chosen at
 * random, are zero, and one is left. `order` and `rest` are room for as many numbers as a unit has inputs. */
static void sort_places(const float *by, int32_t *places, int32_t *room, int n) {
    for (int i = 0; i < n; i++) places[i] = i;
    for (int width = 1; width < n; width *= 2) {
        for (int start = 0; start < n; start += 2 * width) {
            int i = start, middle = start + width < n ? start + width : n, j = middle;
            const int end = start + 2 * width < n ? start + 2 * width : n;
            for (int k = start; k < end; k++)
                room[k] = i < middle && (j >= end || by[places[i]] <= by[places[j]]) ? places[i++] : places[j++];
        }
        memcpy(places, room, (size_t)n * sizeof *places);
    }
}

static void init_weights(float *w, int fan_in, int outputs, hr_key of_values, hr_key of_order, uint32_t first,
                         float *by, int32_t *places, int32_t *room) {
    const float scale = (float)(1.0 / sqrt((double)fan_in));
    const int some = (9 * fan_in + 9) / 10, zeros = some < fan_in - 1 ? some : fan_in - 1;
    for (int n = 0; n < outputs; n++) {
        for (int i = 0; i < fan_in; i++) by[i] = hr_uniform_at(of_order, first + (uint32_t)(i * outputs + n));
        sort_places(by, places, room, fan_in);
        for (int i = 0; i < fan_in; i++) {
            const float value = (2 * hr_uniform_at(of_values, first + (uint32_t)(i * outputs + n)) - 1) * scale;
            w[i * outputs + n] = places[i] < zeros ? 0 : value;
        }
    }
}

static void init_params(hr_learner *l) {
    const hr_key key = hr_fold_in(l->key, 0x7fffffff), of_values = hr_split(key, 0, 2), of_order = hr_split(key, 1, 2);
    uint32_t first = 0;
    for (int which = 0; which < MODULES; which++) {
        float *w = l->modules[which].w;
        int s[4], biased, dimensions;
        for (int i = 0; w && (dimensions = layer_of(l, which, i, s, &biased)); i++) {
            const int outputs = s[dimensions - 1];
            int fan_in = 1;
            for (int k = 0; k < dimensions - 1; k++) fan_in *= s[k];
            init_weights(w, fan_in, outputs, of_values, of_order, first, l->sorted, l->places, l->places + fan_in);
            first += (uint32_t)(fan_in * outputs), w += fan_in * outputs;
            if (biased) fill(w, 0, (size_t)outputs), w += outputs;
        }
    }
}

/* Observations */

static void observe(hr_learner *l, const float *frame, float *out) {
    include(&l->obs_scale, frame, l->frame);
    standardise(&l->obs_scale, frame, out, l->frame, l->config.limit);
}

/* An episode's first observation: its first frame, as often as frames are stacked. */
static void observe_first(hr_learner *l, const float *frame) {
    const int channels = l->config.channels, frames = l->config.frames, pixels = l->frame / channels;
    observe(l, frame, l->frame_room);
    for (int i = 0; i < pixels; i++)
        for (int k = 0; k < frames; k++)
            copy(l->obs + (i * frames + k) * channels, l->frame_room + i * channels, (size_t)channels);
}

/* The observation after this one: its oldest frame goes, the new one comes last. */
static void observe_next(hr_learner *l, const float *frame) {
    const int channels = l->config.channels, wide = channels * l->config.frames, pixels = l->frame / channels;
    if (wide == channels) {
        observe(l, frame, l->next_obs);
        return;
    }
    observe(l, frame, l->frame_room);
    copy(l->next_obs, l->obs + channels, (size_t)(l->observation - channels));
    for (int i = 0; i < pixels; i++)
        for (int k = 0; k < channels; k++)
            l->next_obs[(i + 1) * wide - channels + k] = l->frame_room[i * channels + k];
}

/* r / sqrt(var(u) + eps), where u <- gamma (1 - ended) u + r */
static float scale_reward(hr_learner *l, float reward, int last) {
    *l->discounted = l->config.gamma * (float)(1 - last) * *l->discounted + reward;
    include(&l->reward_scale, l->discounted, 1);
    return reward * per_deviation(&l->reward_scale, 0);
}

/* Finite, and not so large that the squares of a run's numbers would sum up to infinity. */
static int is_usable(const float *x, int n) {
    int strange = 0;
    for (int i = 0; i < n; i++) strange |= !(fabsf(x[i]) <= 1e12f);
    return !strange;
}

/* Evaluation */

static void evaluate_pass(hr_learner *l, const float *obs, int first, pass *p) {
    const module *m = &l->modules[first];
    encode_for(l, first, obs, p);
    project(&l->net, m[PROJECTION].w, p);
    finish(network_of(l, first), m[HEAD].w, p);
}

/* What a step learns from, with the observation's way through Q. */
typedef struct {
    const float *obs, *next_obs;
    pass *acting;
    float reward;
    int output, terminated; /* output: of the network's, the one that is learnt, Q(s, a) or V(s) */
} transition;

static transition present(hr_learner *l, int flags) {
    const int output = l->config.rule == HR_ACTOR_CRITIC ? 0 : *l->action.number;
    return (transition){l->obs, l->next_obs, &l->acting, l->reward, output, flags & HR_TERMINATED};
}

/* The transition to learn from, after the present one was stored. */
static transition recall(hr_learner *l, int flags) {
    transitions *t = &l->memory;
    const int size = l->config.replay, n = l->observation, slot = *l->inserted % size;
    const int filled = *l->inserted + 1 < size ? *l->inserted + 1 : size, at = (int)(l->draws[2] * (float)filled);
    const int drawn = at < filled - 1 ? at : filled - 1;
    copy(t->obs + (size_t)slot * (size_t)n, l->obs, (size_t)n);
    copy(t->next_obs + (size_t)slot * (size_t)n, l->next_obs, (size_t)n);
    t->action[slot] = *l->action.number, t->reward[slot] = l->reward, t->greedy[slot] = *l->greedy;
    t->terminated[slot] = !!(flags & HR_TERMINATED), t->truncated[slot] = !!(flags & HR_TRUNCATED);
    t->last[slot] = !!(flags & HR_LAST);
    *l->inserted = *l->inserted + 1 >= 2 * size ? size : *l->inserted + 1;
    if (drawn == slot) return present(l, flags);
    const float *obs = t->obs + (size_t)drawn * (size_t)n;
    evaluate_pass(l, obs, ENCODER, &l->recalled);
    return (transition){obs, t->next_obs + (size_t)drawn * (size_t)n, &l->recalled, t->reward[drawn], t->action[drawn],
                        t->terminated[drawn]};
}

/* The window of transitions that SPR looks back on: whether it is ready, with its observations and actions. */
typedef struct {
    const float *obs[HR_MOST_HORIZON + 1];
    taken actions;
    int ready;
} window;

/* An action takes a place among others. */
static void keep_action(const hr_learner *l, taken to, int at, taken from, int from_at) {
    const int n = l->config.actions;
    if (to.number) to.number[at] = from.number[from_at];
    else copy(to.point + at * n, from.point + from_at * n, (size_t)n);
}

static window push_episode(hr_learner *l) {
    const int K = l->config.aux.horizon, n = l->observation;
    window w = {.actions = l->window_actions};
    memmove(l->window, l->window + n, (size_t)((K - 1) * n) * sizeof(float));
    for (int k = 0; k < K - 1; k++) keep_action(l, l->window_actions, k, l->window_actions, k + 1);
    copy(l->window + (K - 1) * n, l->obs, (size_t)n);
    keep_action(l, l->window_actions, K - 1, l->action, 0);
    *l->window_held = *l->window_held + 1 < K ? *l->window_held + 1 : K;
    for (int k = 0; k < K; k++) w.obs[k] = l->window + k * n;
    w.obs[K] = l->next_obs, w.ready = *l->window_held >= K;
    return w;
}

/* Ready when all slots but the last were written in this lap, so that the last image is of the lap before. */
static window push_ring(hr_learner *l) {
    const int slots = l->config.aux.horizon + 1, n = l->observation, at = *l->window_held % slots;
    window w = {.actions = l->window_actions};
    copy(l->window + at * n, l->obs, (size_t)n);
    keep_action(l, l->window_actions, at, l->action, 0);
    for (int k = 0; k < slots; k++) w.obs[k] = l->window + k * n;
    w.ready = at == slots - 2 && *l->window_held >= slots;
    *l->window_held = *l->window_held + 1 >= 2 * slots ? slots : *l->window_held + 1;
    return w;
}

static int gate_is_open(const hr_learner *l) {
    switch (l->config.aux.gate) {
        case HR_EVERY: return *l->step % l->config.aux.gate_every == 0;
        case HR_GREEDY: return *l->greedy;
        default: return 1;
    }
}

/* z_0 of the first image, the latents imagined from it, and those of the later images, as rows for the projection. */
static void look(hr_learner *l, const window *w) {
    const hr_config *c = &l->config;
    const int K = c->aux.horizon, channels = c->channels * c->frames;
    spr *s = &l->spr;
    const float *draws = l->draws + STEP_DRAWS;
    for (int k = 0; k <= K; k++) {
        float *view = k ? s->other_view : s->view;
        view_image(&c->aux, w->obs[k], c->height, c->width, channels, c->spatial, draws + k * VIEW_DRAWS, view);
        encode(&l->net, k ? l->aux_target[0] : l->modules[ENCODER].w, view, k ? &s->seen : &s->first);
        if (k) copy(l->rows_x + (K + k) * l->row_x, s->seen.x, (size_t)l->net.latent + 1);
    }
    prepare_dynamics(s, l->modules[DYNAMICS].w, c->box);
    imagine(s, l->modules[DYNAMICS].w, w->actions, l->rows_x + l->row_x, l->row_x);
}

/* Rows through the matrices that they belong to; those that share one go together. */
static void project_rows(hr_learner *l, const float *bootstrap) {
    const int K = l->active ? l->config.aux.horizon : 0, rows = 1 + 2 * K;
    const float *own = l->modules[shared_projection(&l->config)].w;
    fill(l->rows_y, 0, (size_t)(rows * l->row_y));
    for (int k = 0; k < rows;) {
        const float *w = k == 0 ? bootstrap : k <= K ? own : l->aux_target[1];
        int end = k + 1;
        while (end < rows && (end <= K ? own : l->aux_target[1]) == w) end++;
        dense_forwards(w, l->net.latent + 1, l->net.hidden, l->rows_x + k * l->row_x, l->row_x, l->rows_y + k * l->row_y,
                       l->row_y, end - k);
        k = end;
    }
}

static void project_rows_back(hr_learner *l, int of_v) {
    const int K = l->active ? l->config.aux.horizon : 0, own = shared_projection(&l->config), start = of_v ? 0 : 1;
    const float *q = l->modules[PROJECTION].w, *guesses = l->modules[own].w;
    const int in = l->net.latent, out = l->net.hidden, x = l->row_x, y = l->row_y;
    if (q == guesses || !K) {
        dense_back(q, in, out, l->rows_d + start * y, y, l->rows_dx + start * x, x, K + 2 - start);
        return;
    }
    if (of_v) dense_back(q, in, out, l->rows_d, y, l->rows_dx, x, 1);
    dense_back(guesses, in, out, l->rows_d + y, y, l->rows_dx + x, x, K);
    dense_back(q, in, out, l->rows_d + (K + 1) * y, y, l->rows_dx + (K + 1) * x, x, 1);
}

/* The auxiliary's gradient, once rows have gone back through the projection; guarded. */
static void take_aux_gradient(hr_learner *l, const window *w) {
    const hr_config *c = &l->config;
    const int K = c->aux.horizon, own = shared_projection(c), h = l->net.hidden;
    spr *s = &l->spr;
    for (int k = 0; k < K; k++) copy(s->rows_d + k * l->net.latent, l->rows_dx + (k + 1) * l->row_x, (size_t)l->net.latent);
    back_through_dynamics(s, w->actions, l->dynamics_gradient, l->slope[0], l->slope[1]);
    back_through_encoder(&l->net, l->turned, &s->first, l->slope[0], l->slope[1], l->encoder_gradient[3]);
    l->modules[ENCODER].a = (outer){&ONE, l->encoder_gradient[3], 1, 0, 0};
    l->modules[own].a = (outer){l->rows_x + l->row_x, l->rows_d + l->row_y, K, l->row_x, l->row_y};
    l->modules[DYNAMICS].a = (outer){&ONE, l->dynamics_gradient, 1, 0, 0};
    l->modules[PREDICTOR].a = (outer){s->projected, s->guess_d, K, h + 1, h};
    float square = 0;
    const int of_aux[] = {ENCODER, own, DYNAMICS, PREDICTOR};
    for (int i = 0; i < 4; i++) {
        const module *m = &l->modules[of_aux[i]];
        square += squared_norm(&m->a, m->rows, m->columns);
    }
    const int acts = c->aux.guard > 0 && sqrtf(square) > c->aux.guard;
    l->metrics[AUX_GUARDED] = (float)acts;
    if (!acts) return;
    const float factor = c->aux.guard / sqrtf(square);
    scale_by(l->encoder_gradient[3], factor, l->modules[ENCODER].columns);
    scale_by(l->dynamics_gradient, factor, l->modules[DYNAMICS].columns);
    scale_by(s->guess_d, factor, K * h);
    for (int k = 0; k < K; k++) scale_by(l->rows_d + (k + 1) * l->row_y, factor, h);
}

/* The gradient of one number, the head's apart, from the slope d at the projection's result and what came of it at the
 * latent. */
static value_gradient gradient_at(hr_learner *l, int number, const pass *p, float *d, const float *dx) {
    float *g = l->encoder_gradient[number];
    copy(l->slope[0], dx, (size_t)l->net.latent);
    back_through_encoder(&l->net, l->turned, p, l->slope[0], l->slope[1], g);
    return (value_gradient){g, l->head_gradient[number], p->x, d};
}

static value_gradient gradient_of_value(hr_learner *l, int number, const pass *p, int output, float *d, const float *dx) {
    take_head_gradient(&l->net, p, output, l->head_gradient[number]);
    return gradient_at(l, number, p, d, dx);
}

/* A gradient of the second network, its head's is there. A shared encoder has been turned about for the first one. */
static value_gradient gradient_of_second(hr_learner *l) {
    const module *m = &l->modules[SECOND_ENCODER];
    dense_back(m[PROJECTION].w, l->net.latent, l->net.hidden, l->second.d, 0, l->rows_dx, 0, 1);
    if (m[ENCODER].w) turn_encoder(&l->net, m[ENCODER].w, l->turned);
    return gradient_at(l, 2, &l->second, l->second.d, l->rows_dx);
}

static value_gradient gradient_of_h(hr_learner *l, int action) {
    back_from_head(&l->net, l->modules[SECOND_HEAD].w, action, &l->second);
    take_head_gradient(&l->net, &l->second, action, l->head_gradient[2]);
    return gradient_of_second(l);
}

/* Of log pi(a|s) + entropy sign(delta) H(pi(.|s)). */
static value_gradient gradient_of_policy(hr_learner *l, float delta) {
    const hr_config *c = &l->config;
    const architecture *net = &l->second_net;
    const float weight = c->entropy * (float)((delta > 0) - (delta < 0)), *outputs = l->second.q;
    likelihood *of = &l->likelihood;
    if (c->box) gaussian_at(outputs, outputs + c->actions, c->actions, l->action.point, of);
    else softmax_at(outputs, c->actions, *l->action.number, of);
    for (int i = 0; i < net->heads * net->outputs; i++) of->by_log_pi[i] += weight * of->by_entropy[i];
    back_from_all(net, l->modules[SECOND_HEAD].w, of->by_log_pi, &l->second, l->head_gradient[2]);
    return gradient_of_second(l);
}

/* Values and gradients of a transition, those of the auxiliary among them, which share passes over the projection. */
static values evaluate(hr_learner *l, const transition *t, const window *w) {
    const hr_config *c = &l->config;
    const int qrc = c->rule == HR_QRC, of_v = qrc && c->target.kind == HR_ONLINE;
    const float *bootstrap = l->td_target[PROJECTION], *own = l->modules[PROJECTION].w;
    const int K = l->active ? c->aux.horizon : 0, at_once = !of_v && !K && bootstrap == own;
    pass *next = &l->bootstrap;
    encode(&l->net, l->td_target[ENCODER], t->next_obs, next);
    copy(l->rows_x, next->x, (size_t)l->net.latent + 1);
    float *d_q = l->rows_d + (K + 1) * l->row_y, *dx_q = l->rows_dx + (K + 1) * l->row_x;
    back_from_head(&l->net, l->modules[HEAD].w, t->output, t->acting);
    copy(d_q, t->acting->d, (size_t)l->net.hidden);
    if (l->active) look(l, w);
    if (at_once) {
        fill(l->rows_y, 0, (size_t)l->net.hidden);
        dense_both_ways(own, l->net.latent, l->net.hidden, l->rows_x, l->rows_y, d_q, dx_q);
    } else
        project_rows(l, bootstrap);
    copy(next->top.normal, l->rows_y, (size_t)l->net.hidden);
    finish(&l->net, l->td_target[HEAD], next);
    const int best = best_action(next->q, l->net.outputs);
    if (l->active)
        l->metrics[AUX_LOSS] = spr_loss(&l->spr, c->aux.mean, l->modules[PREDICTOR].w, l->rows_y + l->row_y,
                                        l->rows_y + (1 + K) * l->row_y, l->row_y);
    for (int k = 0; k < K; k++)
        copy(l->rows_d + (1 + k) * l->row_y, l->spr.projected_d + k * l->net.hidden, (size_t)l->net.hidden);

    if (of_v) back_from_head(&l->net, l->modules[HEAD].w, best, next);
    if (of_v) copy(l->rows_d, next->d, (size_t)l->net.hidden);
    if (!at_once) project_rows_back(l, of_v);

    values v = {.q = t->acting->q[t->output], .v = next->q[best], .reward = t->reward,
                .discount = t->terminated ? 0 : c->gamma};
    turn_encoder(&l->net, l->modules[ENCODER].w, l->turned);
    v.of_q = gradient_of_value(l, 0, t->acting, t->output, d_q, dx_q);
    if (of_v) v.of_v = gradient_of_value(l, 1, next, best, l->rows_d, l->rows_dx);
    if (l->active) take_aux_gradient(l, w);
    if (qrc) v.h = l->second.q[t->output], v.of_h = gradient_of_h(l, t->output);
    if (c->rule == HR_ACTOR_CRITIC) v.of_pi = gradient_of_policy(l, td_error(&v));
    return v;
}

/* Account */

static void count_step(hr_learner *l) {
    int watched = 0;
    if (l->tally[0] < INT32_MAX) l->tally[0]++, l->tally[1] += l->active;
    for (int i = 0; i < METRICS; i++) {
        if (!l->sums[i]) continue;
        const int counts = !is_of_aux(i) || l->active;
        if (counts) *l->sums[i] += l->metrics[i];
        if (i == OVERSHOOT) continue;
        if (counts && !isfinite(l->metrics[i]) && l->tally[2] < 0) l->tally[2] = *l->step, l->tally[3] = watched;
        watched++;
    }
}

static void see(hr_learner *l) {
    if (*l->step % SEEN_EVERY) return;
    const int place = *l->step / SEEN_EVERY % SEEN_STATES;
    copy(l->seen + (size_t)place * (size_t)l->observation, l->obs, (size_t)l->observation);
}

static void end_step(hr_learner *l, float reward, int last) {
    *l->episode_return += reward, *l->episode_length += *l->episode_length < INT32_MAX;
    if (!last) return;
    l->finished = (hr_episode){*l->step, *l->episode_length, *l->episode_return};
    *l->episode_return = 0, *l->episode_length = 0;
}

static void swap(pass *a, pass *b) {
    const pass c = *a;
    *a = *b, *b = c;
}

static void move_all(hr_learner *l) {
    float square = 0, of_second = 0, none = 0;
    decide_updates(l);
    for (int i = AUX_PROJECTION; i <= PREDICTOR; i++) move_module(l, i, 0, 0, &none);
    move_network(l, ENCODER, l->obs, &l->following, &square);
    swap(&l->acting, &l->following);
    l->metrics[TD_UPDATE_NORM] = hypotf(fabsf(l->reach[0]) * sqrtf(square), l->joined[0]);
    if (!has_second(&l->config)) return;
    move_network(l, SECOND_ENCODER, l->obs, &l->second_following, &of_second);
    swap(&l->second, &l->second_following);
    l->metrics[l->config.rule == HR_QRC ? H_UPDATE_NORM : ACTOR_UPDATE_NORM] =
        hypotf(fabsf(l->reach[1]) * sqrtf(of_second), l->joined[1]);
}

static int learn(hr_learner *l, const float *successor, const float *frame, float reward, int flags) {
    const int last = !!(flags & HR_LAST);
    if (!is_usable(successor, l->frame) || !is_usable(&reward, 1) || (last && !is_usable(frame, l->frame)))
        return HR_STRANGE_NUMBER;
    see(l);
    observe_next(l, successor);
    l->reward = scale_reward(l, reward, last);
    window w = {.ready = 0};
    if (l->config.aux.objective == HR_SPR) w = l->config.aux.ring ? push_ring(l) : push_episode(l);
    l->active = w.ready && gate_is_open(l);
    const transition t = l->config.replay ? recall(l, flags) : present(l, flags);
    values v = evaluate(l, &t, &w);
    learn_values(l, &v);
    l->cut = flags & (HR_TERMINATED | HR_TRUNCATED) || (l->config.rule != HR_ACTOR_CRITIC && !*l->greedy);
    if (l->cut) l->motion[0].nowhere = l->motion[1].nowhere = l->nowhere;
    if (l->config.aux.objective == HR_SPR && !l->config.aux.ring && last) *l->window_held = 0;
    if (last) observe_first(l, frame);
    else copy(l->obs, l->next_obs, (size_t)l->observation);
    move_all(l);
    l->metrics[EPSILON] = l->epsilon, l->metrics[REWARD] = reward;
    *l->step = *l->step < INT32_MAX ? *l->step + 1 : LATE; /* long after exploration has ended */
    count_step(l);
    end_step(l, reward, last);
    follow_targets(l);
    draw_step(l);
    choose(l);
    return HR_FINE;
}

static int are_within(const int32_t *x, int n, int32_t last) {
    for (int i = 0; i < n; i++)
        if (x[i] < 0 || x[i] > last) return 0;
    return 1;
}

/* Whether everything that counts or points in a saved state is in its range. */
static int is_sound(const hr_learner *l) {
    const hr_config *c = &l->config;
    const int last_action = c->actions - 1, K = c->aux.horizon, slots = c->aux.ring ? K + 1 : K;
    const int32_t counts[] = {*l->step, *l->obs_scale.count, *l->reward_scale.count, *l->episode_length, l->tally[0]};
    if (!are_within(counts, 5, INT32_MAX) || !are_within(l->tally + 1, 1, l->tally[0])) return 0;
    if (l->tally[2] < -1 || (l->tally[2] >= 0 && !are_within(l->tally + 3, 1, METRICS - 1))) return 0;
    if (c->box ? !is_usable(l->action.point, c->actions) : !are_within(l->action.number, 1, last_action)) return 0;
    for (int i = 0; i < 2; i++)
        if (l->intended[i].steps && !are_within(l->intended[i].steps, 1, INT32_MAX)) return 0;
    if (c->replay && !are_within(l->inserted, 1, 2 * c->replay - 1)) return 0;
    if (c->replay && !are_within(l->memory.action, c->replay, last_action)) return 0;
    if (c->aux.objective != HR_SPR) return 1;
    if (!are_within(l->window_held, 1, c->aux.ring ? 2 * slots - 1 : K)) return 0;
    return c->box || are_within(l->window_actions.number, slots, last_action);
}

/* What is made anew from what is saved. */
static void resume(hr_learner *l) {
    l->cut = 0;
    evaluate_pass(l, l->obs, ENCODER, &l->acting);
    if (has_second(&l->config)) evaluate_pass(l, l->obs, SECOND_ENCODER, &l->second);
    draw_step(l);
}

/* Cut traces are written out as zeros: what follows is the same. */
static void settle(hr_learner *l) {
    if (!l->cut) return;
    for (int i = 0; i < MODULES; i++)
        if (l->modules[i].trace) fill(l->modules[i].trace, 0, size_of(&l->modules[i]));
    if (l->h_trace) *l->h_trace = 0;
    l->cut = 0;
}

static void bind(hr_learner *l) {
    binder b = {.base = (char *)l, .used = FIRST_ARRAY, .wanted = -1};
    lay_out(&b, l);
    l->self = l;
}

/* A block that was moved elsewhere finds its arrays again. */
static void attach(hr_learner *l) {
    if (l->self == l) return;
    const int cut = l->cut;
    bind(l);
    resume(l);
    l->cut = cut;
}

/* The public functions: see learner.h. */

size_t hr_size(const hr_config *config) {
    if (hr_problem(config)) return 0;
    hr_learner l = {.config = *config};
    binder b = {.used = FIRST_ARRAY, .wanted = -1};
    lay_out(&b, &l);
    return b.used == SIZE_MAX ? 0 : b.used;
}

hr_learner *hr_init(const hr_config *config, void *memory, uint64_t seed) {
    const size_t size = hr_size(config);
    if (!size || (uintptr_t)memory % 64) return 0;
    unfence(memory, size);
    memset(memory, 0, size);
    hr_learner *l = memory;
    l->format = HR_FORMAT, l->config = *config, l->key = hr_key_of(seed);
    bind(l);
    init_params(l);
    for (int i = 0; i < 3; i++)
        if (l->td_target[i] != l->modules[i].w) copy(l->td_target[i], l->modules[i].w, size_of(&l->modules[i]));
    const int which[] = {ENCODER, shared_projection(config)};
    for (int i = 0; i < 2 && l->aux_target[i]; i++)
        if (l->aux_target[i] != l->modules[which[i]].w)
            copy(l->aux_target[i], l->modules[which[i]].w, size_of(&l->modules[which[i]]));
    l->tally[2] = l->tally[3] = -1;
    return l;
}

static void start_episode(hr_learner *l, const float *frame) {
    const unsigned before = flush_denormals();
    attach(l);
    observe_first(l, frame);
    const int cut = l->cut;
    resume(l);
    l->cut = cut;
    choose(l);
    restore_denormals(before);
}

void hr_begin(hr_learner *l, const float *frame) { start_episode(l, frame); }

void hr_restart(hr_learner *l, const float *frame) {
    attach(l);
    l->cut = 1;
    if (l->window_held) *l->window_held = 0;
    *l->discounted = *l->episode_return = 0, *l->episode_length = 0;
    start_episode(l, frame);
}

int32_t hr_action(const hr_learner *l) { return l->action.number ? *l->action.number : 0; }
const float *hr_point(const hr_learner *l) { return l->action.point; }
hr_episode hr_finished(const hr_learner *l) { return l->finished; }

int hr_learn(hr_learner *l, const float *successor, const float *frame, float reward, int flags) {
    const unsigned before = flush_denormals();
    attach(l);
    const int outcome = learn(l, successor, frame, reward, flags);
    restore_denormals(before);
    return outcome;
}

int hr_saved(hr_learner *l, int32_t number, hr_array *array) {
    hr_learner same = *l;
    binder b = {.base = (char *)l, .used = FIRST_ARRAY, .wanted = number, .found = array};
    lay_out(&b, &same);
    return number < b.count;
}

void hr_settle(hr_learner *l) {
    attach(l);
    settle(l);
}

int hr_resume(hr_learner *l) {
    const unsigned before = flush_denormals();
    if (l->self != l) bind(l);
    const int sound = is_sound(l);
    if (sound) resume(l);
    restore_denormals(before);
    return sound ? HR_FINE : HR_STRANGE_NUMBER;
}

void hr_evaluate(hr_learner *l, const float *obs, float *q, float *latent, float *hidden) {
    const unsigned before = flush_denormals();
    attach(l);
    evaluate_pass(l, obs, ENCODER, &l->following);
    if (q) copy(q, l->following.q, (size_t)l->net.outputs);
    if (latent) copy(latent, l->following.x, (size_t)l->net.latent);
    if (hidden) copy(hidden, l->following.top.out, (size_t)l->net.hidden);
    restore_denormals(before);
}
