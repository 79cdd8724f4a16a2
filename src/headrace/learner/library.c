/* What a program that is not written in C needs beside the learner. */
#include "games/minatar.h"
#include "random.c"
#include "screen.c"

size_t hr_game_size(void) { return sizeof(hr_game); }

/* What changes of a game, as so many words. */
uint32_t *hr_game_saved(hr_game *game, size_t *words) {
    *words = sizeof game->saved / sizeof(uint32_t);
    return (uint32_t *)&game->saved;
}

/* The widest instruction set of this processor that the learner was compiled for: the ending of its functions' names. */
const char *hr_widest(void) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq"))
        return "_avx512";
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "_avx2";
#endif
    return "";
}
