/* What a program that is not written in C needs beside the learner. */
#include "random.c"
#include "screen.c"

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
