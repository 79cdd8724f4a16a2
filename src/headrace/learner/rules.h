/* The value-learning rules: from the gradients of Q(s, a), h(s, a) and max Q(s', .) to the RL update's direction. */
#ifndef HR_RULES_H
#define HR_RULES_H

#include "layout.h"

/* The gradient of one value of a network, by module. */
typedef struct {
    float *encoder, *head;
    const float *x; /* the projection's is x d^T */
    float *d;
} value_gradient;

static float squared_length(const hr_learner *l, const value_gradient *g) {
    const int size = l->modules[ENCODER].columns, head = l->modules[HEAD].columns;
    const float through = dot(g->x, g->x, l->net.latent + 1) * dot(g->d, g->d, l->net.hidden);
    return dot(g->encoder, g->encoder, size) + through + dot(g->head, g->head, head);
}

static void scale_by(float *x, float factor, int n) {
    for (int i = 0; i < n; i++) x[i] *= factor;
}

/* g <- g min(1, norm / ||g||); returns the squared length before, and notes whether the guard acted. */
static float guarded(const hr_learner *l, value_gradient *g, int *acts) {
    const float square = squared_length(l, g), norm = l->config.guard;
    if (norm > 0 && sqrtf(square) > norm) {
        const float factor = norm / sqrtf(square);
        scale_by(g->encoder, factor, l->modules[ENCODER].columns);
        scale_by(g->head, factor, l->modules[HEAD].columns);
        scale_by(g->d, factor, l->net.hidden);
        *acts = 1;
    }
    return square;
}

static void take_head_gradient(const hr_learner *l, const pass *p, int action, float *g) {
    const int actions = l->net.actions;
    fill(g, 0, (size_t)(l->net.hidden * actions));
    for (int i = 0; i < l->net.hidden; i++) g[i * actions + action] = p->top.out[i];
}

static int best_action(const float *q, int actions) {
    int best = 0;
    for (int a = 1; a < actions; a++)
        if (q[a] > q[best] || (q[a] != q[a] && q[best] == q[best])) best = a;
    return best;
}

typedef struct {
    float q, h, v, discount, reward;
    value_gradient of_q, of_v, of_h;
} values;

static void set_sources(hr_learner *l, int first, const value_gradient *q, const value_gradient *v) {
    const outer none = {0};
    module *m = &l->modules[first];
    m[ENCODER].q = (outer){&ONE, q->encoder, 1, 0, 0}, m[HEAD].q = (outer){&ONE, q->head, 1, 0, 0};
    m[PROJECTION].q = (outer){q->x, q->d, 1, 0, 0};
    m[ENCODER].v = v ? (outer){&ONE, v->encoder, 1, 0, 0} : none;
    m[HEAD].v = v ? (outer){&ONE, v->head, 1, 0, 0} : none;
    m[PROJECTION].v = v ? (outer){v->x, v->d, 1, 0, 0} : none;
}

/* theta += alpha delta grad Q(s, a) */
static void learn_dqn(hr_learner *l, float delta, int acts, float square) {
    l->q_motion = (motion){.q = 1}, l->q_step = l->config.lr * delta;
    l->metrics[OVERSHOOT] = l->config.lr * square;
    l->metrics[GUARDED] = (float)acts;
}

/* How much of the old traces is kept. */
static float kept(const hr_learner *l) { return l->cut ? 0 : l->config.gamma * l->config.lamda; }

/* alpha / max(M, 1), where M = alpha kappa max(1, |delta|) ||z||_1 bounds the effective step. */
static float bounded_step(const hr_learner *l, float delta) {
    const hr_config *c = &l->config;
    const float size = fabsf(delta);
    float norm = 0;
    for (int i = ENCODER; i <= HEAD; i++) norm += trace_size(&l->modules[i], &l->q_motion);
    const float bound = c->lr * c->kappa * (size > 1 ? size : 1) * norm;
    return c->lr / (bound > 1 ? bound : 1);
}

static float clipped(float x, float limit) { return x > limit ? limit : x < -limit ? -limit : x; }

/* How much of its weight a mean has that began at 0 and loses so much at each of some steps. */
static double weight_of_mean(double loses, int32_t steps) { return -expm1(steps * log1p(-loses)); }

/* alpha / sqrt(sigma sum z^2 / m), along z / m, where m = sqrt(v) and sigma is the mean of sum g^2 / m; the error is
 * cut to `clip` times the root of its mean square. All means are divided by what they lack of their weight. */
static float intentional_step(hr_learner *l, float *delta) {
    const hr_config *c = &l->config;
    const hr_step_size *s = &c->step_size;
    const float keep = c->gamma * c->lamda;
    *l->intended.steps += *l->intended.steps < INT32_MAX;
    l->q_motion.square_keep = 1 - s->square_loses, l->q_motion.square_loses = s->square_loses;
    l->q_motion.epsilon = 1e-8f;
    l->q_motion.weight = (float)weight_of_mean(s->square_loses, *l->intended.steps);
    lengths sum = {0, 0};
    for (int i = ENCODER; i <= HEAD; i++) {
        const lengths of = lengths_of(&l->modules[i], &l->q_motion);
        sum.gradient += of.gradient, sum.trace += of.trace;
    }
    *l->intended.spread = keep * *l->intended.spread + (1 - keep) * sum.gradient;
    *l->intended.error = (1 - s->error_loses) * *l->intended.error + s->error_loses * (*delta * *delta);
    const double of_spread = weight_of_mean(1 - keep, *l->intended.steps);
    const double of_error = weight_of_mean(s->error_loses, *l->intended.steps);
    const float length = sqrtf(*l->intended.spread / (float)of_spread * sum.trace);
    *delta = clipped(*delta, s->clip * sqrtf(*l->intended.error / (float)of_error));
    return c->lr / (length < 1e-8f ? 1e-8f : length);
}

/* theta += size delta d, where d is the trace, or what the step size makes of it. */
static void learn_stream_q(hr_learner *l, float delta) {
    const hr_config *c = &l->config;
    float size = c->lr;
    l->q_motion = (motion){.keep = kept(l), .trace = 1, .nothing = l->cut ? l->nothing : 0};
    switch (c->step_size.kind) {
        case HR_OBGD: size = bounded_step(l, delta); break;
        case HR_ADAPTIVE: /* z / (sqrt(v) + epsilon) */
            l->q_motion.square_keep = c->gamma * c->lamda, l->q_motion.square_loses = 1 - c->gamma * c->lamda;
            l->q_motion.weight = 1, l->q_motion.epsilon = c->step_size.epsilon;
            delta = clipped(delta, c->step_size.limit);
            break;
        case HR_INTENTIONAL: size = intentional_step(l, &delta); break;
    }
    l->q_step = size * delta;
    l->metrics[STEP_SIZE] = size;
}

/* w += alpha (delta z_w - h g_q - z_h g_delta);  psi += alpha_h (delta z_psi - h g_h - beta psi).
 * z_h, z_psi, z_w <- gamma lambda z + h, g_h, g_q;  g_delta = gamma grad max Q(s', .) - g_q. */
static void learn_qrc(hr_learner *l, const values *v, float delta, int acts, float square) {
    const hr_config *c = &l->config;
    const float keep = kept(l), slow = c->lr * c->h_lr_scale, *nothing = l->cut ? l->nothing : 0;
    const float h = v->h, h_trace = *l->h_trace = keep * (l->cut ? 0 : *l->h_trace) + h;
    l->q_motion = (motion){.keep = keep, .trace = c->lr * delta, .q = c->lr * (h_trace - h),
                           .v = -c->lr * h_trace * v->discount, .nothing = nothing};
    l->h_motion = (motion){
        .keep = keep, .trace = slow * delta, .q = -slow * h, .w = -slow * c->regularizer, .nothing = nothing};
    l->q_step = l->h_step = 1;
    l->metrics[H] = h;
    l->metrics[OVERSHOOT] = c->lr * square / (1 - c->gamma * c->lamda);
    l->metrics[GUARDED] = (float)acts;
}

/* The rule's motion of Q and h for one transition, from its values and their gradients. */
static void learn_values(hr_learner *l, values *v) {
    int acts = 0;
    const int qrc = l->config.rule == HR_QRC, guards = l->config.rule != HR_STREAM_Q;
    const float delta = v->reward + v->discount * v->v - v->q;
    const float unguarded = guards ? guarded(l, &v->of_q, &acts) : squared_length(l, &v->of_q);
    const float square = acts ? squared_length(l, &v->of_q) : unguarded;
    if (qrc && v->of_v.x) guarded(l, &v->of_v, &acts);
    if (qrc) guarded(l, &v->of_h, &acts);
    l->metrics[TD_ERROR] = fabsf(delta), l->metrics[Q] = v->q, l->metrics[Q_GRADIENT_NORM] = sqrtf(unguarded);
    set_sources(l, ENCODER, &v->of_q, v->of_v.x ? &v->of_v : 0);
    if (qrc) set_sources(l, H_ENCODER, &v->of_h, 0);
    switch (l->config.rule) {
        case HR_DQN: learn_dqn(l, delta, acts, square); break;
        case HR_STREAM_Q: learn_stream_q(l, delta); break;
        default: learn_qrc(l, v, delta, acts, square);
    }
}

#endif
