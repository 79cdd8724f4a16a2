/* Numbers too small for a full mantissa count as zero while the learner computes: traces fade to them, and they are slow. */
#ifndef HR_DENORMALS_H
#define HR_DENORMALS_H

#if defined(__SSE__)
static unsigned flush_denormals(void) {
    const unsigned before = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(before | 0x8040);
    return before;
}
static void restore_denormals(unsigned before) { __builtin_ia32_ldmxcsr(before); }
#elif defined(__aarch64__)
static unsigned flush_denormals(void) {
    uint64_t before;
    __asm__ volatile("mrs %0, fpcr" : "=r"(before));
    __asm__ volatile("msr fpcr, %0" : : "r"(before | (1u << 24)));
    return (unsigned)before;
}
static void restore_denormals(unsigned before) { __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)before)); }
#else
static unsigned flush_denormals(void) { return 0; }
static void restore_denormals(unsigned before) { (void)before; }
#endif

#endif
