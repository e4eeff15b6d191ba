/* SPDX-License-Identifier: 0BSD
 *
 * mcc_pool_pthread.h - a pool of POSIX threads for mcc_pool.h.
 *
 *     mcc_pool *pool = mcc_pool_pthread_start(2u);      the caller's thread, and one more
 *     kws_set_pool(&net, pool);
 *     ... runs of the network, and of others, one at a time ...
 *     mcc_pool_pthread_stop(pool);
 *
 * Its threads wait for work in a loop for a short time, about a millisecond (MCC_POOL_SPINS turns), and then
 * sleep. A run never waits for a thread that has not begun: what nobody has taken the caller does. Where two threads
 * run networks with one pool at the same time, one of them does all by itself. Short steps are left to the caller while
 * that is faster, which is tried out from time to time: the results are the same.
 */
#ifndef MCC_POOL_PTHREAD_H
#define MCC_POOL_PTHREAD_H

#include "mcc_pool.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A pool of `threads` threads, that of the caller among them: as many as there are cores to be busy, and no more. NULL
 * where there is no memory or no thread to be had; a network without a pool runs all the same. */
mcc_pool *mcc_pool_pthread_start(uint32_t threads);

/* Ends the threads of a pool from mcc_pool_pthread_start, which no network may use any more. NULL is none. */
void mcc_pool_pthread_stop(mcc_pool *pool);

#ifdef __cplusplus
}
#endif

#endif /* MCC_POOL_PTHREAD_H */
