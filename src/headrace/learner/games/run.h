/* A learner and a game, taking turns. */
#ifndef HR_RUN_H
#define HR_RUN_H

#include "../learner.h"
#include "minatar.h"

typedef int hr_learning(hr_learner *, const float *, const float *, float, int); /* hr_learn, for some instruction set */

/* So many steps of a learner that has begun with the game's observation. `ended` has room for an episode a step; the
 * result is how many ended. -1: the learner chose an action that the game does not have. */
int32_t hr_run(hr_learner *learner, hr_learning *learn, hr_game *game, int32_t steps, hr_episode *ended);

#endif
