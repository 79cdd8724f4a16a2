/* A learner and a game, taking turns. */
#include "run.h"

int32_t hr_run(hr_learner *learner, hr_learning *learn, hr_game *game, int32_t steps, hr_episode *ended) {
    float successor[HR_CELLS * HR_MOST_CHANNELS], frame[HR_CELLS * HR_MOST_CHANNELS], reward;
    int32_t episodes = 0;
    for (int32_t i = 0; i < steps; i++) {
        const int over = hr_game_step(game, hr_action(learner), successor, frame, &reward);
        if (over < 0) return -1;
        learn(learner, successor, frame, reward, over ? HR_TERMINATED | HR_LAST : 0);
        if (over) ended[episodes++] = hr_finished(learner);
    }
    return episodes;
}
