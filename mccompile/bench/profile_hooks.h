/* SPDX-License-Identifier: 0BSD */
/* profile_hooks.h - hooks for mcc.h that take the time of each step of a network's run. */
#ifndef MCC_PROFILE_HOOKS_H
#define MCC_PROFILE_HOOKS_H

#include <stddef.h>
#include <stdint.h>

/* Adds the nanoseconds of step i to ns[i] from now on, for i < steps; ns belongs to the caller, NULL stops it. One
 * network at a time: the table is global. */
void mcc_profile_into(uint64_t *ns, size_t steps);

/* Adds the nanoseconds that a step of nothing would take to *ns, `times` times: what the clock itself costs. */
void mcc_profile_nothing(uint64_t *ns, size_t times);

void mcc_profile_begin(size_t step);
void mcc_profile_end(size_t step);

#define MCC_PROFILE_BEGIN(step) mcc_profile_begin((step))
#define MCC_PROFILE_END(step) mcc_profile_end((step))

#endif
