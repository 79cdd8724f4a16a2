/* The learner compiled for a wider instruction set has names of its own, so that a library can hold several. */
#ifndef HR_VARIANT_H
#define HR_VARIANT_H

#ifdef HR_VARIANT
#define HR_JOIN(name, variant) name##_##variant
#define HR_NAMED(name, variant) HR_JOIN(name, variant)
#define hr_size HR_NAMED(hr_size, HR_VARIANT)
#define hr_problem HR_NAMED(hr_problem, HR_VARIANT)
#define hr_init HR_NAMED(hr_init, HR_VARIANT)
#define hr_begin HR_NAMED(hr_begin, HR_VARIANT)
#define hr_restart HR_NAMED(hr_restart, HR_VARIANT)
#define hr_action HR_NAMED(hr_action, HR_VARIANT)
#define hr_point HR_NAMED(hr_point, HR_VARIANT)
#define hr_learn HR_NAMED(hr_learn, HR_VARIANT)
#define hr_finished HR_NAMED(hr_finished, HR_VARIANT)
#define hr_saved HR_NAMED(hr_saved, HR_VARIANT)
#define hr_settle HR_NAMED(hr_settle, HR_VARIANT)
#define hr_resume HR_NAMED(hr_resume, HR_VARIANT)
#define hr_evaluate HR_NAMED(hr_evaluate, HR_VARIANT)
#endif

#endif
