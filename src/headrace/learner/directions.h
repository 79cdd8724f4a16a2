/* How two updates become one, in each module.
 *
 * Whatever a filter or a merge makes of a module is a combination of five directions, so it is computed on their
 * coefficients; lengths and angles come from the directions' inner products. This file is the definition's `filters`
 * and `merging` on such vectors.
 */
#ifndef HR_DIRECTIONS_H
#define HR_DIRECTIONS_H

#include "learner.h"

enum { R, G, C, E, M, DIRECTIONS }; /* RL update's direction, auxiliary gradient, histories of both, average of RL */

#define TINY 1e-30f /* makes 0 / 0 a zero, and is invisible beside the squared norm of any update */

typedef struct {
    float of[DIRECTIONS];
} span;

typedef struct {
    float of[DIRECTIONS][DIRECTIONS];
} gram;

static span along(int direction, float factor) {
    span x = {{0}};
    x.of[direction] = factor;
    return x;
}

static float inner(const gram *g, span a, span b) {
    float sum = 0;
    for (int i = 0; i < DIRECTIONS; i++)
        for (int j = 0; j < DIRECTIONS; j++)
            if (a.of[i] != 0 && b.of[j] != 0) sum += a.of[i] * b.of[j] * g->of[i][j];
    return sum;
}

/* p a + q b */
static span joined(float p, span a, float q, span b) {
    for (int i = 0; i < DIRECTIONS; i++) a.of[i] = p * a.of[i] + q * b.of[i];
    return a;
}

/* a less its component along b, however short that is; a itself where it is zero. */
static span without(const gram *g, span a, span b) {
    return joined(1, a, -inner(g, a, b) / (inner(g, b, b) + TINY), b);
}

static span blend(float keep, span old, span fresh) { return joined(keep, old, 1 - keep, fresh); }

typedef struct {
    span used, history;
} filtered;

/* u = x - (x.c / ||c||^2) c with the history c, which then takes in x, or u. */
static filtered filter_gradient(const hr_filter *f, const gram *g, span x, int past) {
    const span c = along(past, 1), present = blend(f->beta, c, x);
    switch (f->history) {
        case HR_RAW: return (filtered){without(g, x, c), present};
        case HR_PROJECTED: {
            const span left = without(g, x, c);
            return (filtered){left, blend(f->beta, c, left)};
        }
        case HR_RAW_CURRENT: return (filtered){without(g, x, present), present};
        default: return (filtered){x, c};
    }
}

/* The update of a module that both streams move, from that of each. `line` is along the RL update, also where that is
 * zero but for a filter; `average` is the moving average of RL updates. */
static span merge_updates(const hr_config *config, const gram *g, span td, span aux, span line, span average) {
    switch (config->merge) {
        case HR_ORTH2: aux = without(g, aux, line); break;
        case HR_ORTH2_AVERAGE: aux = without(g, aux, average); break;
        case HR_PCGRAD:
            if (inner(g, td, aux) < 0) {
                const span free_of_aux = without(g, td, aux);
                aux = without(g, aux, td);
                td = free_of_aux;
            }
            break;
    }
    switch (config->join) {
        case HR_MIX: return joined(config->mix, td, 1 - config->mix, aux);
        case HR_FLIPPED: return joined(1, td, -1, aux);
        default: return joined(1, td, 1, aux);
    }
}

#endif
