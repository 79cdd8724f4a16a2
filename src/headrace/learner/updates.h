/* Filters and merge decide each module's update; then all modules move. */
#ifndef HR_UPDATES_H
#define HR_UPDATES_H

#include "layout.h"

static const motion WHOLE = {.q = 1}; /* of a module whose update stands in place of a gradient */

static const motion *motion_of(const hr_learner *l, const module *m) {
    return m->joined ? &WHOLE : &l->motion[m->second];
}
static float step_of(const hr_learner *l, const module *m) { return m->joined ? 1 : l->reach[m->second]; }

static gram summed(const hr_learner *l, int of_aux) {
    gram sum = {{{0}}};
    for (int i = ENCODER; i <= HEAD; i++) {
        const module *m = &l->modules[i];
        for (int j = 0; (of_aux ? m->aux : m->td) && j < DIRECTIONS * DIRECTIONS; j++) (&sum.of[0][0])[j] += (&m->g.of[0][0])[j];
    }
    return sum;
}

/* The update of a module, and what its histories become. */
static void combine(hr_learner *l, module *m, const gram *td_sum, const gram *aux_sum, float *aux_square) {
    const hr_config *c = &l->config;
    const float descent = -c->aux.lr * c->aux.weight;
    const span raw = along(R, step_of(l, m));
    filtered td = {raw, along(E, 1)}, aux = {{{0}}, along(C, 1)};
    if (m->td_history) td = filter_gradient(&c->td_filter, c->td_filter.together ? td_sum : &m->g, raw, E);
    m->next_td_history = td.history;
    if (m->aux && l->active) {
        const int whole = c->aux.filter.together && m->in_q;
        aux = filter_gradient(&c->aux.filter, whole ? aux_sum : &m->g, along(G, 1), C);
        *aux_square += descent * descent * inner(&m->g, aux.used, aux.used);
    }
    m->next_history = aux.history;
    const span aux_update = joined(descent, aux.used, 0, aux.used);
    m->next_average = blend(c->average_beta, along(M, 1), td.used);
    const span line = m->td_history ? td.used : along(R, 1);
    if (m->td && m->aux) m->update = merge_updates(c, &m->g, td.used, aux_update, line, m->next_average);
    else m->update = m->td ? td.used : aux_update;
    if (m != &l->modules[ENCODER] || !m->aux || !l->active) return;
    const span with[] = {along(G, descent), aux_update};
    for (int i = 0; i < 2; i++) {
        const float lengths = sqrtf(inner(&m->g, td.used, td.used)) * sqrtf(inner(&m->g, with[i], with[i]));
        l->metrics[COSINE_BEFORE_ORTH + i] = lengths > 0 ? inner(&m->g, td.used, with[i]) / lengths : 0;
    }
}

/* All updates scaled to a Euclidean norm of at most the bound, all modules together. */
static void bound_updates(hr_learner *l) {
    float square = 0;
    for (int i = 0; i < MODULES; i++)
        if (l->modules[i].w) square += inner(&l->modules[i].g, l->modules[i].update, l->modules[i].update);
    const float length = sqrtf(square);
    if (!(length > l->config.bound)) return;
    for (int i = 0; i < MODULES; i++)
        l->modules[i].update = joined(l->config.bound / length, l->modules[i].update, 0, l->modules[i].update);
}

static void decide_updates(hr_learner *l) {
    float aux_square = 0;
    for (int i = 0; i < MODULES; i++)
        if (l->modules[i].w) measure(&l->modules[i], motion_of(l, &l->modules[i]), l->active);
    const gram td_sum = summed(l, 0), aux_sum = summed(l, 1);
    for (int i = 0; i < MODULES; i++)
        if (l->modules[i].w) combine(l, &l->modules[i], &td_sum, &aux_sum, &aux_square);
    l->metrics[AUX_UPDATE_NORM] = sqrtf(aux_square);
    if (l->config.bound > 0) bound_updates(l);
}

static const architecture *network_of(const hr_learner *l, int first) { return first ? &l->second_net : &l->net; }

/* The latent of a network; of an actor that shares the critic's encoder, that of the critic's last pass. */
static void encode_for(hr_learner *l, int first, const float *obs, pass *p) {
    const float *encoder = l->modules[first + ENCODER].w;
    if (encoder) encode(&l->net, encoder, obs, p);
    else see_through(&l->acting, p);
}

/* Moves a module; y += x_next w on the way, where there is a next input. */
static void move_module(hr_learner *l, int which, const float *x_next, float *y, float *square) {
    module *m = &l->modules[which];
    if (!m->w) return;
    const float direction = move(m, motion_of(l, m), l->active, x_next, y);
    if (m->td && !m->joined) *square += direction;
    if (m->history && !l->active && l->config.aux.filter.fading)
        scale_by(m->history, l->config.aux.filter.beta, m->rows * m->columns);
}

/* The parameters of the next step, and what they give at what is acted on next: the projection moves while that latent
 * goes through it. */
static void move_network(hr_learner *l, int first, const float *obs, pass *next, float *square) {
    const module *m = &l->modules[first];
    move_module(l, first + ENCODER, 0, 0, square);
    move_module(l, first + HEAD, 0, 0, square);
    encode_for(l, first, obs, next);
    fill(next->top.normal, 0, (size_t)l->net.hidden);
    move_module(l, first + PROJECTION, next->x, next->top.normal, square);
    finish(network_of(l, first), m[HEAD].w, next);
}

static void follow_target(const hr_target *target, int32_t step, const float *from, float *to, size_t size) {
    if (target->kind == HR_COPY && step % target->every == 0) copy(to, from, size);
    if (target->kind == HR_POLYAK)
        for (size_t i = 0; i < size; i++) to[i] = target->keep * to[i] + (1 - target->keep) * from[i];
}

static size_t size_of(const module *m) { return (size_t)m->rows * (size_t)m->columns; }

static void follow_targets(hr_learner *l) {
    for (int i = 0; i < 3; i++)
        follow_target(&l->config.target, *l->step, l->modules[i].w, l->td_target[i], size_of(&l->modules[i]));
    if (l->config.aux.objective != HR_SPR) return;
    const int which[] = {ENCODER, shared_projection(&l->config)};
    for (int i = 0; i < 2; i++) {
        const module *m = &l->modules[which[i]];
        follow_target(&l->config.aux.target, *l->step, m->w, l->aux_target[i], size_of(m));
    }
}

#endif
