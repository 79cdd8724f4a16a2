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
#define POLICY_BOX $box /* whether an action is so many numbers, which are to be scaled to the bounds of a box */

typedef struct {
    float values[POLICY_ACTIONS];          /* $given */
    float observation[POLICY_OBSERVATION]; /* its latest frames, standardised */
    float room[2][POLICY_ROOM];
} policy;

/* The action for the frame that is seen now: its number, or in a box 0, its numbers being `values`. `first`: an episode
 * begins with the frame. Nothing else is to be set. */
int policy_act(policy *p, const float frame[POLICY_FRAME], int first);

#endif
