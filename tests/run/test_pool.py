"""The pool of POSIX threads: whether it shares short steps out is decided by what is faster, again and again."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

RUNTIME = Path(__file__).parents[2] / "runtime_c"

MAIN = r"""
#define _POSIX_C_SOURCE 200809L
#include "mcc_pool_pthread.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define SETTLED 20000 /* runs: what was found before is over, and asked again */
#define SAME 3000     /* runs: more than a trial waits for help */

static int64_t whole_ns, part_ns;
static pthread_t caller;
static uint32_t helped; /* parts that another thread has done */
static uint32_t wholes; /* calls of both parts at once, which the caller alone makes */

static int64_t now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void work(uint32_t first, uint32_t last)
{
    const int64_t end = now() + ((last - first == 2u) ? whole_ns : part_ns);
    if (last - first == 2u) {
        ++wholes;
    }
    if (pthread_equal(pthread_self(), caller) == 0) {
        (void)__atomic_add_fetch(&helped, 1u, __ATOMIC_SEQ_CST);
    }
    while (now() < end) {
    }
}

static void step(const void *context, uint32_t first, uint32_t last)
{
    (void)context;
    work(first, last);
}

static void another_step(const void *context, uint32_t first, uint32_t last)
{
    (void)context;
    work(first, last);
}

/* Prints who does the work in the end, or that it was left open. */
static void decide(mcc_pool *pool, long runs)
{
    const int64_t begun = now();
    uint32_t same = 0u;
    uint32_t before = 0u;

    wholes = 0u;
    for (long i = 0; i < runs && (same < SAME || wholes == 0u) && now() - begun < (int64_t)10000000000; ++i) {
        const uint32_t w = wholes;

        mcc_pool_run(pool, step, NULL, 2u);
        mcc_pool_run(pool, another_step, NULL, 2u);
        same = (i >= SETTLED && wholes - w == before) ? same + 1u : 0u;
        before = wholes - w;
    }
    puts(wholes == 0u ? "never asked" : same < SAME ? "open" : before == 0u ? "all" : "caller");
}

/* How many runs to wait for a trial, and nanoseconds of both parts at once and of each, as often as these change. */
int main(int argc, char **argv)
{
    mcc_pool *pool = mcc_pool_pthread_start(2u);

    if (pool == NULL || argc < 4) {
        return 2;
    }
    caller = pthread_self();
    for (int i = 2; i + 1 < argc; i += 2) {
        whole_ns = atoi(argv[i]);
        part_ns = atoi(argv[i + 1]);
        decide(pool, atol(argv[1]));
    }
    mcc_pool_pthread_stop(pool);
    return (helped == 0u) ? 1 : 0;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one core has nobody to share with")
    return built(tmp_path_factory.mktemp("pool"))


def built(folder: Path, *options: str) -> Path:
    (folder / "main.c").write_text(MAIN)
    sources = [str(folder / "main.c"), str(RUNTIME / "mcc_pool_pthread.c")]
    flags = ["-std=c99", "-O2", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror", f"-I{RUNTIME}", "-pthread"]
    subprocess.run(["cc", *flags, *options, *sources, "-o", str(folder / "main")], check=True)
    return folder / "main"


@pytest.mark.parametrize(
    ("times", "runs", "who"),
    [
        ([1_000, 2_000], 10_000_000, ["caller"]),  # cores that are far from each other
        ([4_000, 1_000], 10_000_000, ["all"]),
        ([4_000, 1_000, 1_000, 4_000], 10_000_000, ["all", "caller"]),  # they were moved
        ([10_000, 40_000], 1_000, ["never asked"]),  # no short step: shared, whatever a trial would say
    ],
)
def test_steps_are_shared_where_that_is_faster(
    program: Path, times: Sequence[int], runs: int, who: Sequence[str]
) -> None:
    given = [str(n) for n in (runs, *times)]
    assert any(said(program, *given) == who for _ in range(3))  # a busy machine takes a core away at times


def said(program: Path, *given: str) -> list[str]:
    run = subprocess.run([program, *given], check=True, capture_output=True, text=True, timeout=100)
    return run.stdout.splitlines()


def test_threads_may_sleep_at_once(tmp_path: Path) -> None:
    program = built(tmp_path, "-DMCC_POOL_SPINS=0")
    assert said(program, "20", "1000000", "1000000") == ["never asked"]  # and were woken: the program fails if not
