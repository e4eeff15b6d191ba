/* SPDX-License-Identifier: 0BSD */
/* trace_hooks.h - hooks for mcc.h that keep copies of chosen results of a network's steps while it runs. */
#ifndef MCC_TRACE_HOOKS_H
#define MCC_TRACE_HOOKS_H

#include <stddef.h>

/* One result to keep: what step `step` leaves at `data`. `copy` has `bytes` bytes, which it has at most: of a caller's
 * output whose extents are never at their largest together, less. `hits` counts the copies made. */
typedef struct mcc_trace_slot {
    const void *data;
    void *copy;
    size_t bytes;
    unsigned step;
    unsigned hits;
} mcc_trace_slot;

/* Keeps results in `slots` from now on; they belong to the caller. One network at a time: the table is global. */
void mcc_trace_into(mcc_trace_slot *slots, size_t count);

void mcc_trace_step(unsigned step, const void *data, size_t bytes);

#define MCC_TRACE(step, ptr, bytes) mcc_trace_step((step), (ptr), (bytes))

#endif
