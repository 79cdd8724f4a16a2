/* The rules: from the gradients of Q(s, a), h(s, a) and max Q(s', .), or of V(s) and log pi(a|s), to the RL updates'
 * directions. */
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

/* g <- the gradient of one number that the head gives, Q(s, a) or V(s), by the head. */
static void take_head_gradient(const architecture *net, const pass *p, int output, float *g) {
    const int outputs = net->outputs;
    fill(g, 0, head_size(net));
    for (int i = 0; i < net->hidden; i++) g[i * outputs + output] = p->top.out[i];
    if (net->biased) g[net->hidden * outputs + output] = 1;
}

static int best_action(const float *q, int actions) {
    int best = 0;
    for (int a = 1; a < actions; a++)
        if (q[a] > q[best] || (q[a] != q[a] && q[best] == q[best])) best = a;
    return best;
}

typedef struct {
    float q, h, v, discount, reward;
    value_gradient of_q, of_v, of_h, of_pi; /* of_pi: of log pi(a|s) + entropy sign(delta) H(pi(.|s)) */
} values;

/* delta = r + gamma v(s') - q(s, a) */
static float td_error(const values *v) { return v->reward + v->discount * v->v - v->q; }

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
    l->motion[0] = (motion){.q = 1}, l->reach[0] = l->config.lr * delta;
    l->metrics[OVERSHOOT] = l->config.lr * square;
    l->metrics[GUARDED] = (float)acts;
}

/* How much of the old traces is kept. */
static float kept(const hr_learner *l) { return l->cut ? 0 : l->config.gamma * l->config.lamda; }

/* What a step size is told of its network. */
typedef struct {
    int second;
    float lr, kappa;
} pace;

static module *modules_of(hr_learner *l, int second) { return l->modules + (second ? SECOND_ENCODER : ENCODER); }

/* alpha / max(M, 1), where M = alpha kappa max(1, |delta|) ||z||_1 bounds the effective step. */
static float bounded_step(hr_learner *l, const pace *p, float delta) {
    const float size = fabsf(delta);
    float norm = 0;
    for (int i = ENCODER; i <= HEAD; i++) norm += trace_size(&modules_of(l, p->second)[i], &l->motion[p->second]);
    const float bound = p->lr * p->kappa * (size > 1 ? size : 1) * norm;
    return p->lr / (bound > 1 ? bound : 1);
}

static float clipped(float x, float limit) { return x > limit ? limit : x < -limit ? -limit : x; }

/* How much of its weight a mean has that began at 0 and loses so much at each of some steps. */
static double weight_of_mean(double loses, int32_t steps) { return -expm1(steps * log1p(-loses)); }

/* alpha / sqrt(sigma sum z^2 / m), along z / m, where m = sqrt(v) and sigma is the mean of sum g^2 / m; the error is
 * cut to `clip` times the root of its mean square. All means are divided by what they lack of their weight. */
static float intentional_step(hr_learner *l, const pace *p, float *delta) {
    const hr_step_size *s = step_size_of(&l->config, p->second);
    const intended *kept = &l->intended[p->second];
    const float keep = l->config.gamma * l->config.lamda;
    motion *mo = &l->motion[p->second];
    *kept->steps += *kept->steps < INT32_MAX;
    mo->square_keep = 1 - s->square_loses, mo->square_loses = s->square_loses, mo->epsilon = 1e-8f;
    mo->weight = (float)weight_of_mean(s->square_loses, *kept->steps);
    lengths sum = {0, 0};
    for (int i = ENCODER; i <= HEAD; i++) {
        const lengths of = lengths_of(&modules_of(l, p->second)[i], mo);
        sum.gradient += of.gradient, sum.trace += of.trace;
    }
    *kept->spread = keep * *kept->spread + (1 - keep) * sum.gradient;
    *kept->error = (1 - s->error_loses) * *kept->error + s->error_loses * (*delta * *delta);
    const double of_spread = weight_of_mean(1 - keep, *kept->steps), of_error = weight_of_mean(s->error_loses, *kept->steps);
    const float length = sqrtf(*kept->spread / (float)of_spread * sum.trace);
    *delta = clipped(*delta, s->clip * sqrtf(*kept->error / (float)of_error));
    return p->lr / (length < 1e-8f ? 1e-8f : length);
}

/* How a network moves: size delta d, where d is the trace, or what the step size makes of it. Returns the size. */
static float follow_trace(hr_learner *l, pace p, float delta) {
    const hr_config *c = &l->config;
    const hr_step_size *s = step_size_of(c, p.second);
    motion *mo = &l->motion[p.second];
    float size = p.lr;
    *mo = (motion){.keep = kept(l), .trace = 1, .nothing = l->cut ? l->nothing : 0};
    switch (s->kind) {
        case HR_OBGD: size = bounded_step(l, &p, delta); break;
        case HR_ADAPTIVE: /* z / (sqrt(v) + epsilon) */
            mo->square_keep = c->gamma * c->lamda, mo->square_loses = 1 - c->gamma * c->lamda;
            mo->weight = 1, mo->epsilon = s->epsilon;
            delta = clipped(delta, s->limit);
            break;
        case HR_INTENTIONAL: size = intentional_step(l, &p, &delta); break;
    }
    l->reach[p.second] = size * delta;
    return size;
}

static void learn_stream_q(hr_learner *l, float delta) {
    const pace of_q = {0, l->config.lr, l->config.kappa};
    l->metrics[STEP_SIZE] = follow_trace(l, of_q, delta);
}

/* An encoder that critic and actor share takes both updates: their sum stands in place of its gradient. */
static void join_encoder(hr_learner *l) {
    float *sum = l->encoder_gradient[1];
    vec square = {0}, of_actor = {0};
    for (int i = 0, n; i < l->modules[ENCODER].columns; i += LANES) {
        n = l->modules[ENCODER].columns - i < LANES ? l->modules[ENCODER].columns - i : LANES;
        vec moved[2];
        for (int k = 0; k < 2; k++) {
            const module *m = modules_of(l, k);
            row of;
            row_of(m, 0, &of);
            const unsigned ways = TD | TRACE | (m->square ? METRIC : 0);
            const stretch s = directions_at(ways, 0, &l->motion[k], &of, 0, m->trace, m->square, i, n, n == LANES);
            put(m->trace + i, s.z, n, n == LANES);
            if (m->square) put(m->square + i, s.square, n, n == LANES);
            moved[k] = l->reach[k] * s.r;
        }
        put(sum + i, moved[0] + moved[1], n, n == LANES);
        square += (moved[0] + moved[1]) * (moved[0] + moved[1]), of_actor += moved[1] * moved[1];
    }
    l->joined[0] = sqrtf(total(square)), l->joined[1] = sqrtf(total(of_actor));
    l->modules[ENCODER].q = (outer){&ONE, sum, 1, 0, 0};
}

/* w += size delta d of the critic, theta += size delta d of the actor; z_w <- gamma lambda z_w + grad V(s),
 * z_theta <- gamma lambda z_theta + grad log pi(a|s) + entropy sign(delta) grad H(pi(.|s)). */
static void learn_actor_critic(hr_learner *l, float delta) {
    const hr_config *c = &l->config;
    const pace critic = {0, c->lr, c->kappa}, actor = {1, c->actor_lr, c->actor_kappa};
    l->metrics[STEP_SIZE] = follow_trace(l, critic, delta);
    l->metrics[ACTOR_STEP_SIZE] = follow_trace(l, actor, delta);
    l->metrics[LOG_PI] = l->likelihood.log_pi, l->metrics[ENTROPY] = l->likelihood.entropy;
    if (l->modules[ENCODER].joined) join_encoder(l);
}

/* w += alpha (delta z_w - h g_q - z_h g_delta);  psi += alpha_h (delta z_psi - h g_h - beta psi).
 * z_h, z_psi, z_w <- gamma lambda z + h, g_h, g_q;  g_delta = gamma grad max Q(s', .) - g_q. */
static void learn_qrc(hr_learner *l, const values *v, float delta, int acts, float square) {
    const hr_config *c = &l->config;
    const float keep = kept(l), slow = c->lr * c->h_lr_scale, *nothing = l->cut ? l->nothing : 0;
    const float h = v->h, h_trace = *l->h_trace = keep * (l->cut ? 0 : *l->h_trace) + h;
    l->motion[0] = (motion){.keep = keep, .trace = c->lr * delta, .q = c->lr * (h_trace - h),
                            .v = -c->lr * h_trace * v->discount, .nothing = nothing};
    l->motion[1] = (motion){
        .keep = keep, .trace = slow * delta, .q = -slow * h, .w = -slow * c->regularizer, .nothing = nothing};
    l->reach[0] = l->reach[1] = 1;
    l->metrics[H] = h;
    l->metrics[OVERSHOOT] = c->lr * square / (1 - c->gamma * c->lamda);
    l->metrics[GUARDED] = (float)acts;
}

/* The rule's motions for one transition, from its values and their gradients. */
static void learn_values(hr_learner *l, values *v) {
    int acts = 0;
    const int qrc = l->config.rule == HR_QRC, guards = !is_sized(&l->config);
    const float delta = td_error(v);
    const float unguarded = guards ? guarded(l, &v->of_q, &acts) : squared_length(l, &v->of_q);
    const float square = acts ? squared_length(l, &v->of_q) : unguarded;
    if (qrc && v->of_v.x) guarded(l, &v->of_v, &acts);
    if (qrc) guarded(l, &v->of_h, &acts);
    l->metrics[TD_ERROR] = fabsf(delta), l->metrics[Q] = v->q, l->metrics[Q_GRADIENT_NORM] = sqrtf(unguarded);
    set_sources(l, ENCODER, &v->of_q, v->of_v.x ? &v->of_v : 0);
    if (qrc) set_sources(l, SECOND_ENCODER, &v->of_h, 0);
    if (l->config.rule == HR_ACTOR_CRITIC) set_sources(l, SECOND_ENCODER, &v->of_pi, 0);
    switch (l->config.rule) {
        case HR_DQN: learn_dqn(l, delta, acts, square); break;
        case HR_STREAM_Q: learn_stream_q(l, delta); break;
        case HR_ACTOR_CRITIC: learn_actor_critic(l, delta); break;
        default: learn_qrc(l, v, delta, acts, square);
    }
}

#endif
