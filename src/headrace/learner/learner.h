/* The learner: one agent on one stream of experience. It sees each transition once, learns from it and forgets it.
 *
 * The caller gives one block of memory of `hr_size` bytes. Nothing here allocates, opens a file, starts a thread or
 * keeps a global; a step's cost does not depend on what came before. The names are those of the definition in JAX.
 */
#ifndef HR_LEARNER_H
#define HR_LEARNER_H

#include "variant.h"

#include <stddef.h>
#include <stdint.h>

#define HR_FORMAT 1 /* of a block's contents; raised whenever they change */
#define HR_MOST_LAYERS 8
#define HR_MOST_HORIZON 64

enum { HR_DQN, HR_STREAM_Q, HR_QRC, HR_ACTOR_CRITIC };
enum { HR_OBGD, HR_SGD, HR_ADAPTIVE, HR_INTENTIONAL };
enum { HR_ONLINE, HR_COPY, HR_POLYAK };
enum { HR_LEAKY_NORM, HR_RELU };
enum { HR_NO_AUXILIARY, HR_SPR };
enum { HR_ALWAYS, HR_EVERY, HR_GREEDY };
enum { HR_UNFILTERED, HR_RAW, HR_PROJECTED, HR_RAW_CURRENT };
enum { HR_AS_THEY_ARE, HR_ORTH2, HR_ORTH2_AVERAGE, HR_PCGRAD }; /* what the merge does to the two updates ... */
enum { HR_SUM, HR_MIX, HR_FLIPPED };                            /* ... and how it joins them */

typedef struct {
    int32_t kernel_height, kernel_width, stride_height, stride_width, channels;
} hr_layer; /* a dense layer is a convolution of a 1 x 1 image */

typedef struct {
    int32_t kind;
    int32_t every; /* HR_COPY: environment steps */
    float keep;    /* HR_POLYAK: fraction kept */
} hr_target;

typedef struct {
    int32_t kind;
    float epsilon, limit;                  /* HR_ADAPTIVE; the limit is of the TD error */
    float square_loses, clip, error_loses; /* HR_INTENTIONAL; what means lose of themselves at a step */
} hr_step_size;

typedef struct {
    int32_t history; /* HR_UNFILTERED: none */
    int32_t together, fading;
    float beta;
} hr_filter;

typedef struct {
    int32_t objective, horizon, mean, separate, ring; /* mean over the horizon; a projection of its own; released ring */
    int32_t augmented, shift, clipped;
    float intensity, clip_low, clip_high;
    float weight, lr, guard; /* a guard of 0 is none */
    int32_t gate, gate_every;
    hr_target target;
    hr_filter filter;
} hr_auxiliary;

typedef struct {
    int32_t height, width, channels, frames, actions; /* of one frame; frames are stacked along the channels */
    int32_t box; /* an action is a point of a box, so many numbers; else one of so many */
    int32_t spatial, layers, hidden, head;            /* spatial: the latent is an image, imagined by convolutions */
    hr_layer layer[HR_MOST_LAYERS];
    int32_t rule, replay; /* replay: transitions kept; 0 learns from the latest */
    float lr, gamma, lamda, kappa, h_lr_scale, regularizer, guard;
    hr_step_size step_size; /* of HR_STREAM_Q, and of the critic */
    float actor_lr, actor_kappa, entropy;
    int32_t one_encoder; /* the actor sees through the critic's */
    hr_step_size actor_step_size;
    hr_target target;
    hr_filter td_filter;
    hr_auxiliary aux;
    int32_t merge, join;
    float mix, average_beta, bound; /* a bound of 0 is none */
    float explore_start, explore_end, explore_fraction, steps;
    float limit; /* of standardised observations; 0 is none */
} hr_config;

enum { HR_FLOAT32, HR_INT32, HR_BOOL };

typedef struct {
    char name[120];
    int32_t type, dimensions, shape[4];
    uint64_t offset; /* in bytes, from the start of the block */
} hr_array;

enum { HR_TERMINATED = 1, HR_TRUNCATED = 2, HR_LAST = 4 };
enum { HR_FINE, HR_STRANGE_NUMBER };

typedef struct hr_learner hr_learner;

typedef struct {
    int32_t step, length;
    float episode_return;
} hr_episode;

/* Bytes that an agent needs; 0 where the description makes no sense, and `hr_problem` says why. */
size_t hr_size(const hr_config *config);
const char *hr_problem(const hr_config *config);

/* Makes the memory, 64-byte aligned, a learner whose parameters come from the seed. */
hr_learner *hr_init(const hr_config *config, void *memory, uint64_t seed);

/* The stream's first observation; or that of another episode, where the present one cannot go on. */
void hr_begin(hr_learner *learner, const float *frame);
void hr_restart(hr_learner *learner, const float *frame);

/* The action to take now, or in a box its numbers, each of which the environment clips to [-1, 1]; and learning from
 * what it led to: the frame it led to, and the one to act on next, which is read where the episode is over.
 * HR_STRANGE_NUMBER: something is not finite or beyond 1e12, and nothing was changed. */
int32_t hr_action(const hr_learner *learner);
const float *hr_point(const hr_learner *learner);
int hr_learn(hr_learner *learner, const float *successor, const float *frame, float reward, int flags);
hr_episode hr_finished(const hr_learner *learner); /* the episode that ended last */

/* Everything that has to be kept of a learner, array by array: returns 0 past the last one. Before arrays are read
 * `hr_settle`, after they were written `hr_resume`; HR_STRANGE_NUMBER: a count or an action is none, and the learner
 * cannot go on from there. */
int hr_saved(hr_learner *learner, int32_t number, hr_array *array);
void hr_settle(hr_learner *learner);
int hr_resume(hr_learner *learner);

/* What the network makes of a standardised observation: Q(s, .) or a critic's V(s), the latent, the units before the
 * head; any may be absent. Nothing is learnt. */
void hr_evaluate(hr_learner *learner, const float *obs, float *q, float *latent, float *hidden);

#endif
