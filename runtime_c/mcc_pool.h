/* SPDX-License-Identifier: 0BSD
 *
 * mcc_pool.h - how an application lets its threads work at a network of mccompile --threads.
 *
 * Generated code starts no thread and waits for none. Where a step is worth it, its work is in parts that may be done
 * in any order and at the same time; the application gives each network a pool, which gets them done:
 *
 *     static void run(mcc_pool *pool, mcc_task *task, const void *context, uint32_t parts)
 *     {
 *         #pragma omp parallel for
 *         for (uint32_t i = 0u; i < parts; ++i) {
 *             task(context, i, i + 1u);
 *         }
 *     }
 *     static mcc_pool pool = {run};
 *     kws_set_pool(&net, &pool);
 *
 * mcc_pool_pthread.c, which --pthread-pool writes, is such a pool of POSIX threads.
 */
#ifndef MCC_POOL_H
#define MCC_POOL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Does the parts from `first` to below `last`; first < last. */
typedef void mcc_task(const void *context, uint32_t first, uint32_t last);

/* `run` gets the parts from 0 to below `parts` done, each once, by as many calls of `task` as it likes, in any order,
 * in any thread, and comes back when all are done: what they have written is visible to the caller then. A pool with
 * a state of its own has this struct as the first member of that. */
typedef struct mcc_pool {
    void (*run)(struct mcc_pool *pool, mcc_task *task, const void *context, uint32_t parts);
} mcc_pool;

/* What generated code calls: without a pool the caller does all parts. */
static inline void mcc_pool_run(mcc_pool *pool, mcc_task *task, const void *context, uint32_t parts)
{
    if (pool == NULL) {
        task(context, 0u, parts);
    } else {
        pool->run(pool, task, context, parts);
    }
}

#ifdef __cplusplus
}
#endif

#endif /* MCC_POOL_H */
