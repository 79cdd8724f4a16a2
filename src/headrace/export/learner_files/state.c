/* The saved state as read-only data: in flash, on a device that has some. The assembler reads state.bin, since a table of
 * so many numbers would keep a compiler busy for long. */
#include "agent.h"

#ifdef __APPLE__
#define SECTION ".section __TEXT,__const"
#define NAME "_agent_state"
#else
#define SECTION ".section .rodata"
#define NAME "agent_state"
#endif

__asm__(SECTION "\n"
        ".globl " NAME "\n"
        ".balign 8\n"
        NAME ":\n"
        ".incbin \"state.bin\"\n"
        ".text\n");
