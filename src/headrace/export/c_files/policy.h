/* What the agent does: $title.
 * Written by `headrace export` from the run $run. Needs libm alone. */
#ifndef POLICY_H
#define POLICY_H

#define POLICY_FRAME $frame /* numbers in what is seen at one step: $shape, as the environment shows it */
#define POLICY_FRAMES $frames /* that the agent looks at together */
#define POLICY_CHANNELS $channels /* of a frame */
#define POLICY_OBSERVATION $observation
#define POLICY_ROOM $room /* numbers in the largest layer */
#define POLICY_ACTIONS $actions /* $action_names */

typedef struct {
    float q[POLICY_ACTIONS];               /* Q(s, .) of the last frame */
    float observation[POLICY_OBSERVATION]; /* its latest frames, standardised */
    float room[2][POLICY_ROOM];
} policy;

/* The best action for the frame that is seen now; `first`: an episode begins with it. Nothing else is to be set. */
int policy_act(policy *p, const float frame[POLICY_FRAME], int first);

#endif
