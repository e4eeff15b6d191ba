/* SPDX-License-Identifier: 0BSD
 *
 * mcc_pool_pthread.c - a pool of POSIX threads; the interface is in mcc_pool_pthread.h. For GCC and Clang.
 *
 * The work of a step is cut into shares, one for each thread. Who takes one counts up `work`, a word that holds all
 * that has to change at once: the number of the step (modulo 2^32), how many shares it has, and how many are taken.
 *
 *     step 7, 2 shares, 1 taken     published by the caller, who has taken share 0
 *     step 7, 2 shares, 2 taken     another thread, or the caller, has taken share 1
 *
 * The task is read by those alone who have taken a share of it, and is not replaced before all shares are done.
 */
#define _POSIX_C_SOURCE 200809L

#include "mcc_pool_pthread.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

/* Turns of a loop in which a thread waits for work, or for the end of it, before it sleeps: longer than most steps that
 * one thread does alone take, as a thread that sleeps misses the step behind them. */
#ifndef MCC_POOL_SPINS
#define MCC_POOL_SPINS 64000
#endif

/* Shares of a step: they are 16 bits of a word. */
#define MOST_SHARES 0xFFFFu

#define LINE 64

typedef struct {
    mcc_pool pool; /* the first member, so that a pointer to it is one to all */
    uint32_t threads;
    pthread_t *others;
    bool stopped;
    pthread_mutex_t in_use; /* held by the caller of a step */
    pthread_mutex_t lock;   /* of what follows, for those who sleep */
    pthread_cond_t begun;
    pthread_cond_t ended;
    uint32_t asleep;
    uint32_t caller_asleep;
    /* Each in a cache line of its own, for every thread reads them again and again; what is done comes with the word
     * that says there is something to do. */
    __attribute__((aligned(LINE))) uint64_t work;
    mcc_task *task;
    const void *context;
    uint32_t parts;
    __attribute__((aligned(LINE))) uint32_t done;
} threads_pool;

static uint64_t word_of(uint32_t step, uint32_t shares, uint32_t taken)
{
    return ((uint64_t)step << 32) | ((uint64_t)shares << 16) | (uint64_t)taken;
}

static uint32_t shares_in(uint64_t word)
{
    return (uint32_t)(word >> 16) & MOST_SHARES;
}

static uint32_t taken_in(uint64_t word)
{
    return (uint32_t)word & MOST_SHARES;
}

static void pause_a_little(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__) || defined(__arm__)
    __asm__ volatile("yield");
#endif
}

/* Takes a share, if one is left, and does it. */
static bool do_share(threads_pool *p)
{
    uint64_t word = __atomic_load_n(&p->work, __ATOMIC_SEQ_CST);

    while (taken_in(word) < shares_in(word)) {
        if (__atomic_compare_exchange_n(&p->work, &word, word + 1u, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
            const uint64_t parts = p->parts;
            const uint32_t shares = shares_in(word);
            const uint32_t share = taken_in(word);

            p->task(p->context, (uint32_t)(parts * share / shares), (uint32_t)(parts * (share + 1u) / shares));
            if (__atomic_add_fetch(&p->done, 1u, __ATOMIC_SEQ_CST) == shares
                && __atomic_load_n(&p->caller_asleep, __ATOMIC_SEQ_CST) != 0u) {
                (void)pthread_mutex_lock(&p->lock);
                (void)pthread_cond_signal(&p->ended);
                (void)pthread_mutex_unlock(&p->lock);
            }
            return true;
        }
    }
    return false;
}

static bool work_is_left(threads_pool *p)
{
    const uint64_t word = __atomic_load_n(&p->work, __ATOMIC_SEQ_CST);

    return taken_in(word) < shares_in(word);
}

/* Until there is work, or the pool is stopped: then false. */
static bool sleep_until_work(threads_pool *p)
{
    bool stopped;

    (void)pthread_mutex_lock(&p->lock);
    (void)__atomic_add_fetch(&p->asleep, 1u, __ATOMIC_SEQ_CST);
    while (!p->stopped && !work_is_left(p)) {
        (void)pthread_cond_wait(&p->begun, &p->lock);
    }
    (void)__atomic_sub_fetch(&p->asleep, 1u, __ATOMIC_SEQ_CST);
    stopped = p->stopped;
    (void)pthread_mutex_unlock(&p->lock);
    return !stopped;
}

static void *work_until_stopped(void *argument)
{
    threads_pool *const p = argument;
    uint32_t turns = 0u;

    for (;;) {
        if (do_share(p)) {
            turns = 0u;
        } else if (turns < MCC_POOL_SPINS) {
            ++turns;
            pause_a_little();
        } else if (sleep_until_work(p)) {
            turns = 0u;
        } else {
            return NULL;
        }
    }
}

static void wait_for_end(threads_pool *p, uint32_t shares)
{
    for (uint32_t turns = 0u; turns < MCC_POOL_SPINS; ++turns) {
        if (__atomic_load_n(&p->done, __ATOMIC_SEQ_CST) == shares) {
            return;
        }
        pause_a_little();
    }
    (void)pthread_mutex_lock(&p->lock);
    __atomic_store_n(&p->caller_asleep, 1u, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&p->done, __ATOMIC_SEQ_CST) != shares) {
        (void)pthread_cond_wait(&p->ended, &p->lock);
    }
    __atomic_store_n(&p->caller_asleep, 0u, __ATOMIC_SEQ_CST);
    (void)pthread_mutex_unlock(&p->lock);
}

static void run_parts(mcc_pool *pool, mcc_task *task, const void *context, uint32_t parts)
{
    threads_pool *const p = (threads_pool *)(void *)pool;
    const uint32_t shares = (parts < p->threads) ? parts : p->threads;

    if (shares < 2u || pthread_mutex_trylock(&p->in_use) != 0) {
        task(context, 0u, parts);
        return;
    }
    p->task = task;
    p->context = context;
    p->parts = parts;
    __atomic_store_n(&p->done, 0u, __ATOMIC_SEQ_CST);
    {
        const uint32_t step = (uint32_t)(__atomic_load_n(&p->work, __ATOMIC_RELAXED) >> 32) + 1u;

        __atomic_store_n(&p->work, word_of(step, shares, 1u), __ATOMIC_SEQ_CST);
    }
    if (__atomic_load_n(&p->asleep, __ATOMIC_SEQ_CST) != 0u) {
        (void)pthread_mutex_lock(&p->lock);
        (void)pthread_cond_broadcast(&p->begun);
        (void)pthread_mutex_unlock(&p->lock);
    }
    task(context, 0u, (uint32_t)((uint64_t)parts / shares));
    (void)__atomic_add_fetch(&p->done, 1u, __ATOMIC_SEQ_CST);
    while (do_share(p)) {
    }
    wait_for_end(p, shares);
    (void)pthread_mutex_unlock(&p->in_use);
}

static void stop(threads_pool *p, uint32_t started)
{
    (void)pthread_mutex_lock(&p->lock);
    p->stopped = true;
    (void)pthread_cond_broadcast(&p->begun);
    (void)pthread_mutex_unlock(&p->lock);
    for (uint32_t i = 0u; i < started; ++i) {
        (void)pthread_join(p->others[i], NULL);
    }
    (void)pthread_cond_destroy(&p->ended);
    (void)pthread_cond_destroy(&p->begun);
    (void)pthread_mutex_destroy(&p->lock);
    (void)pthread_mutex_destroy(&p->in_use);
    free(p->others);
    free(p);
}

mcc_pool *mcc_pool_pthread_start(uint32_t threads)
{
    void *memory = NULL;
    threads_pool *p;

    if (threads < 1u || threads > MOST_SHARES || posix_memalign(&memory, LINE, sizeof(threads_pool)) != 0) {
        return NULL;
    }
    p = memory;
    *p = (threads_pool){.pool = {run_parts}, .threads = threads};
    p->others = malloc(threads * sizeof(pthread_t));
    if (p->others == NULL) {
        free(p);
        return NULL;
    }
    (void)pthread_mutex_init(&p->in_use, NULL);
    (void)pthread_mutex_init(&p->lock, NULL);
    (void)pthread_cond_init(&p->begun, NULL);
    (void)pthread_cond_init(&p->ended, NULL);
    for (uint32_t i = 0u; i + 1u < threads; ++i) {
        if (pthread_create(&p->others[i], NULL, work_until_stopped, p) != 0) {
            stop(p, i);
            return NULL;
        }
    }
    return &p->pool;
}

void mcc_pool_pthread_stop(mcc_pool *pool)
{
    if (pool != NULL) {
        threads_pool *const p = (threads_pool *)(void *)pool;

        stop(p, p->threads - 1u);
    }
}
