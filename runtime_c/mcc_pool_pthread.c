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
 *
 * What short steps gain depends on how far the cores are from each other: those of one cache pass work on in a tenth
 * of a microsecond, others in half of one, and a hypervisor moves them while the program runs. So it is tried out from
 * time to time whether several threads are faster at all. That is asked of whole runs of a network, as a step that one
 * thread does in the middle of others has to fetch from all cores what it works on:
 *
 *     calls                 a b c a b c a b c a b c a b c ...
 *     shares are for all    + + + + + + - - - - - - then as it was faster
 *     nanoseconds count           + + +       + + +
 *
 * A run is over where the task comes again with which it began; those of few calls, or of one task, go on.
 */
#define _POSIX_C_SOURCE 200809L

#include "mcc_pool_pthread.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

/* Turns of a loop in which a thread waits for work, or for the end of it, before it sleeps: longer than most steps that
 * one thread does alone take, as a thread that sleeps misses the step behind them. */
#ifndef MCC_POOL_SPINS
#define MCC_POOL_SPINS 64000
#endif

/* Calls of a run that is tried out, at least and at most, and how many times as many calls as it had a trial is good
 * for. */
#define FEWEST_CALLS 128u
#define MOST_CALLS 4096u
#define GOOD_FOR 64u

/* Runs with hardly any help that are waited for others to wake up in. */
#define MOST_WAITED 16u

/* Nanoseconds of the caller's share, on an average, from which on several threads are faster wherever they are (the
 * others' ones may be longer because they lost their core); and those between two calls up to which they are of a run,
 * which has steps for one thread, too. */
#define LONG_SHARE 5000
#define LONG_PAUSE 10000

/* Shares of a step: they are 16 bits of a word. */
#define MOST_SHARES 0xFFFFu

#define LINE 64

/* Runs of a trial, in this order. In the first one of either kind, caches hold what the other kind has left in them. */
typedef enum { SHARED_FIRST, SHARED, ALONE_FIRST, ALONE, TRIED } trial_run;

typedef struct {
    trial_run run;
    mcc_task *first; /* of a run */
    bool others;     /* are in this run */
    uint32_t calls;  /* in this run */
    uint32_t helped; /* calls of which another thread has done a share */
    uint32_t waited; /* runs with hardly any help */
    uint32_t left;   /* calls until the next trial, when this one has ended */
    int64_t since;   /* the time up to which `spent` has been counted */
    int64_t spent;   /* nanoseconds, in this run */
    int64_t own;     /* those of them in the caller's shares */
    int64_t shared;  /* nanoseconds of a call in the run SHARED, on an average */
    bool alone;      /* the caller is faster */
} trial;

typedef struct {
    mcc_pool pool; /* the first member, so that a pointer to it is one to all */
    uint32_t threads;
    pthread_t *others;
    bool stopped;
    pthread_mutex_t in_use; /* of `trial`: held by the caller of a step */
    trial trial;
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
#elif defined(__ARM_ARCH) && __ARM_ARCH >= 7
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
    uint32_t turns = MCC_POOL_SPINS;

    for (;;) {
        if (do_share(p)) {
            turns = MCC_POOL_SPINS;
        } else if (turns > 0u) {
            --turns;
            pause_a_little();
        } else if (sleep_until_work(p)) {
            turns = MCC_POOL_SPINS;
        } else {
            return NULL;
        }
    }
}

static void wait_for_end(threads_pool *p, uint32_t shares)
{
    for (uint32_t turns = MCC_POOL_SPINS; turns > 0u; --turns) {
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

static int64_t nanoseconds(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Returns whether another thread has done a share. */
static bool share_out(threads_pool *p, mcc_task *task, const void *context, uint32_t parts, uint32_t shares)
{
    uint32_t own = 1u;

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
    {
        const bool counts = p->trial.run != TRIED;
        const int64_t begun = counts ? nanoseconds() : 0;

        task(context, 0u, (uint32_t)((uint64_t)parts / shares));
        p->trial.own += counts ? nanoseconds() - begun : 0;
    }
    (void)__atomic_add_fetch(&p->done, 1u, __ATOMIC_SEQ_CST);
    while (do_share(p)) {
        ++own;
    }
    wait_for_end(p, shares);
    return own < shares;
}

/* Counts what has passed since the last time, if it is no more than `most`. */
static void count_time(trial *t, int64_t most)
{
    if (t->run != TRIED) {
        const int64_t now = nanoseconds();

        t->spent += (now - t->since <= most) ? now - t->since : 0;
        t->since = now;
    }
}

static void end_run(trial *t)
{
    const int64_t each = t->spent / (int64_t)t->calls;

    if (t->run <= SHARED && 2u * t->helped < t->calls && t->waited < MOST_WAITED) {
        ++t->waited; /* once more */
    } else {
        t->left += GOOD_FOR * t->calls;
        t->shared = (t->run == SHARED) ? each : t->shared;
        t->alone = t->run == ALONE && each < t->shared;
        t->run = (t->run == SHARED && t->own / (int64_t)t->calls >= LONG_SHARE) ? TRIED : (trial_run)(t->run + 1);
    }
    t->others = false;
    t->calls = 0u;
    t->helped = 0u;
    t->spent = 0;
    t->own = 0;
}

/* Whether the next call is for all threads. */
static bool is_for_all(trial *t, mcc_task *task)
{
    if (t->run == TRIED && t->left > 0u) {
        --t->left;
        return !t->alone;
    }
    if (t->run == TRIED) {
        *t = (trial){.run = SHARED_FIRST, .first = task};
    } else if ((t->calls >= FEWEST_CALLS && t->others && task == t->first) || t->calls == MOST_CALLS) {
        end_run(t);
    } else if (task != t->first) {
        t->others = true;
    }
    ++t->calls;
    return t->run <= SHARED || (t->run == TRIED && !t->alone);
}

static void run_parts(mcc_pool *pool, mcc_task *task, const void *context, uint32_t parts)
{
    threads_pool *const p = (threads_pool *)(void *)pool;
    trial *const t = &p->trial;
    const uint32_t shares = (parts < p->threads) ? parts : p->threads;
    bool for_all;

    if (shares < 2u || pthread_mutex_trylock(&p->in_use) != 0) {
        task(context, 0u, parts);
        return;
    }
    for_all = is_for_all(t, task);
    count_time(t, LONG_PAUSE);
    if (!for_all) {
        task(context, 0u, parts);
    } else if (share_out(p, task, context, parts, shares)) {
        ++t->helped;
    }
    count_time(t, INT64_MAX);
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
    *p = (threads_pool){.pool = {run_parts}, .threads = threads, .trial = {.run = TRIED}};
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
