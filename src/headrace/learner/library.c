/* Everything that a program which is not written in C calls, as one file to compile. */
#include "random.c"
