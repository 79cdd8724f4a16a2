/* The agent $title.
 * Written by `headrace export`; what it is, how large it is, and how it is started and saved. */
#ifndef AGENT_H
#define AGENT_H

#include "learner/learner.h"

#define AGENT_FRAME $frame /* numbers in one observation: $shape */
#define AGENT_ACTIONS $actions /* $action_names */
#define AGENT_BOX $box /* whether an action is so many numbers */
#define AGENT_RUN 0x$hash /* the run that it is from */
#define AGENT_SEED $seed /* of all random numbers */
#define AGENT_STATE $state /* bytes of a saved state */
#define AGENT_MEMORY $memory /* bytes that the learner works in, where a pointer has 64 bits; fewer where it has 32 */

#define AGENT_CONFIG { \
$config \
}

/* The learner, in memory of its own, as the state has it; 0 where that is no whole state of this agent. */
hr_learner *agent_start(const unsigned char state[AGENT_STATE]);

/* All that has to be kept of the learner; what is started from it goes on as if nothing had happened. */
void agent_save(hr_learner *learner, unsigned char state[AGENT_STATE]);

/* The state of the run at step $step: state.bin, as read-only data of the program. */
extern const unsigned char agent_state[AGENT_STATE];

#endif
