/* Whether a description makes sense. */
#ifndef HR_CHECKS_H
#define HR_CHECKS_H

#include <math.h>

#include "learner.h"

#define MOST_NUMBERS (1 << 28) /* in any one array */
#define MOST_IN_IMAGE (1 << 23) /* a horizon of them fits as well */

static int is_within(float x, float low, float high) { return x >= low && x <= high; }
static int is_rate(float x) { return is_within(x, 0, 3e38f); }
static int is_one_of(int32_t x, int32_t last) { return x >= 0 && x <= last; }

static const char *problem_of_target(const hr_target *t) {
    if (!is_one_of(t->kind, HR_POLYAK)) return "a target is online, a copy or an average";
    if (t->kind == HR_COPY && t->every < 1) return "a target is copied every 1 or more steps";
    if (t->kind == HR_POLYAK && !is_within(t->keep, 0, 1)) return "a target keeps from 0 to 1";
    return 0;
}

static const char *problem_of_step_size(const hr_step_size *s) {
    if (!is_one_of(s->kind, HR_INTENTIONAL)) return "an unknown step size";
    if (!is_rate(s->epsilon) || !is_rate(s->limit) || !is_rate(s->clip)) return "a limit is 0 or more";
    if (s->kind == HR_ADAPTIVE && !(s->epsilon > 0)) return "an epsilon is above 0";
    if (s->kind == HR_INTENTIONAL && !(s->square_loses > 0 && s->square_loses <= 1)) return "a mean loses something";
    if (s->kind == HR_INTENTIONAL && !(s->error_loses > 0 && s->error_loses <= 1)) return "a mean loses something";
    return 0;
}

static const char *problem_of_filter(const hr_filter *f) {
    if (!is_one_of(f->history, HR_RAW_CURRENT)) return "an unknown history of gradients";
    return is_within(f->beta, 0, 1) ? 0 : "a history keeps from 0 to 1";
}

static const char *problem_of_network(const hr_config *c) {
    int64_t height = c->height, width = c->width, channels = (int64_t)c->channels * c->frames;
    if (c->height < 1 || c->width < 1 || c->channels < 1 || c->frames < 1) return "an observation has a size";
    if (c->height > 4096 || c->width > 4096 || c->channels > 1 << 20 || c->frames > 64) return "the observation is too large";
    if (!c->spatial && (height != 1 || width != 1)) return "a vector is an image of 1 x 1";
    if (height * width * channels > MOST_IN_IMAGE) return "the observation is too large";
    if (c->actions < 1 || c->actions > 4096) return "there are from 1 to 4,096 actions";
    if (c->hidden < 1 || c->hidden > 65536) return "the projection has from 1 to 65,536 units";
    if (c->layers < 1 || c->layers > HR_MOST_LAYERS) return "an encoder has from 1 to 8 layers";
    if (!is_one_of(c->head, HR_RELU)) return "an unknown head";
    int64_t weights = 0;
    for (int i = 0; i < c->layers; i++) {
        const hr_layer *l = &c->layer[i];
        if (l->kernel_height < 1 || l->kernel_width < 1 || l->stride_height < 1 || l->stride_width < 1)
            return "a kernel and its strides are 1 or more";
        if (l->channels < 1 || l->channels > 65536) return "a layer has from 1 to 65,536 channels";
        if (l->kernel_height > height || l->kernel_width > width) return "the image is too small for a kernel";
        weights += ((int64_t)l->kernel_height * l->kernel_width * channels + 1) * l->channels;
        if (weights > MOST_NUMBERS) return "the encoder is too large";
        height = (height - l->kernel_height) / l->stride_height + 1, width = (width - l->kernel_width) / l->stride_width + 1;
        channels = l->channels;
        if (height * width * channels > MOST_IN_IMAGE) return "a layer is too large";
    }
    if (height * width * channels * c->hidden > MOST_NUMBERS) return "the projection is too large";
    if (9 * (channels + c->actions) * channels > MOST_NUMBERS) return "the dynamics is too large";
    if (2 * (int64_t)(c->hidden + 1) * c->actions > MOST_NUMBERS) return "the head is too large";
    return (int64_t)c->hidden * c->hidden > MOST_NUMBERS ? "the predictor is too large" : 0;
}

static const char *problem_of_auxiliary(const hr_auxiliary *a) {
    const char *problem;
    if (!is_one_of(a->objective, HR_SPR)) return "an unknown auxiliary objective";
    if (a->objective == HR_NO_AUXILIARY) return 0;
    if (a->horizon < 1 || a->horizon > HR_MOST_HORIZON) return "a horizon is from 1 to 64 steps";
    if (a->shift < 0 || a->shift > 4096) return "a shift is from 0 to 4,096 pixels";
    if (!is_rate(a->intensity) || !is_rate(a->weight) || !is_rate(a->lr) || !is_rate(a->guard)) return "a rate is 0 or more";
    if (a->clipped && !(a->clip_low <= a->clip_high)) return "the limits of a clipped view are in order";
    if (!is_one_of(a->gate, HR_GREEDY) || (a->gate == HR_EVERY && a->gate_every < 1)) return "an unknown gate";
    if ((problem = problem_of_target(&a->target))) return problem;
    return problem_of_filter(&a->filter);
}

const char *hr_problem(const hr_config *c) {
    const char *problem;
    if ((problem = problem_of_network(c)) || (problem = problem_of_auxiliary(&c->aux))) return problem;
    if ((problem = problem_of_target(&c->target)) || (problem = problem_of_filter(&c->td_filter))) return problem;
    if ((problem = problem_of_step_size(&c->step_size)) || (problem = problem_of_step_size(&c->actor_step_size))) return problem;
    if (!is_one_of(c->rule, HR_ACTOR_CRITIC)) return "an unknown rule";
    if (c->box && c->rule != HR_ACTOR_CRITIC) return "points of a box are an actor's to choose";
    if (c->replay < 0 || (c->replay && c->rule != HR_DQN) || c->replay > 1 << 20) return "a memory is DQN's, of 1 or more";
    if ((int64_t)c->replay * c->height * c->width * c->channels * c->frames > MOST_NUMBERS) return "the memory is too large";
    if (!is_rate(c->lr) || !is_rate(c->kappa) || !is_rate(c->h_lr_scale) || !is_rate(c->regularizer)) return "a rate is 0 or more";
    if (!is_rate(c->actor_lr) || !is_rate(c->actor_kappa) || !is_rate(c->entropy)) return "a rate is 0 or more";
    if (!is_rate(c->guard) || !is_rate(c->bound) || !is_rate(c->limit)) return "a bound is 0 or more";
    if (!is_within(c->gamma, 0, 1) || !is_within(c->lamda, 0, 1)) return "gamma and lamda are from 0 to 1";
    if (!is_one_of(c->merge, HR_PCGRAD) || !is_one_of(c->join, HR_FLIPPED)) return "an unknown merge";
    if (!is_within(c->mix, 0, 1) || !is_within(c->average_beta, 0, 1)) return "a mix is from 0 to 1";
    if (!is_within(c->explore_start, 0, 1) || !is_within(c->explore_end, 0, 1) || !is_within(c->explore_fraction, 0, 1))
        return "epsilon and its fraction are from 0 to 1";
    return is_within(c->steps, 1, 2147483648.0f) ? 0 : "a run has from 1 to 2,147,483,648 steps";
}

#endif
