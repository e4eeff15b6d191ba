"""The pool of POSIX threads: whether it shares short steps out is decided by what is faster, again and again."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

RUNTIME = Path(__file__).parents[2] / "runtime_c"

MAIN = r"""
#define _POSIX_C_SOURCE 200809L
#include "mcc_pool_pthread.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static int64_t whole_ns, part_ns;
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

/* Nanoseconds of both parts at once and of each, and how many runs to wait for a trial; prints who does the work in
 * the end, or that it was left open. */
int main(int argc, char **argv)
{
    mcc_pool *pool = mcc_pool_pthread_start(2u);
    const int64_t begun = now();
    uint32_t same = 0u;
    uint32_t before = 0u;
    long left;

    if (pool == NULL || argc != 4) {
        return 2;
    }
    whole_ns = atoi(argv[1]);
    part_ns = atoi(argv[2]);
    for (left = atol(argv[3]); left > 0 && (same < 1000u || wholes == 0u); --left) {
        const uint32_t w = wholes;

        mcc_pool_run(pool, step, NULL, 2u);
        mcc_pool_run(pool, another_step, NULL, 2u);
        same = (wholes - w == before) ? same + 1u : 0u;
        before = wholes - w;
        if (now() - begun > (int64_t)30000000000) {
            break;
        }
    }
    puts(wholes == 0u ? "never asked" : same < 1000u ? "open" : before == 0u ? "all" : "caller");
    mcc_pool_pthread_stop(pool);
    return 0;
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
    ("whole", "part", "runs", "who"),
    [
        (1_000, 2_000, 10_000_000, "caller"),  # cores that are far from each other
        (4_000, 1_000, 10_000_000, "all"),
        (10_000, 40_000, 1_000, "never asked"),  # no short step: shared, whatever a trial would say
    ],
)
def test_steps_are_shared_where_that_is_faster(program: Path, whole: int, part: int, runs: int, who: str) -> None:
    command = [program, str(whole), str(part), str(runs)]
    run = subprocess.run(command, check=True, capture_output=True, text=True, timeout=100)
    assert run.stdout.strip() == who


def test_threads_may_sleep_at_once(tmp_path: Path) -> None:
    program = built(tmp_path, "-DMCC_POOL_SPINS=0")
    run = subprocess.run([program, "1000", "1000", "200"], check=True, capture_output=True, text=True, timeout=100)
    assert run.stdout.strip() in ("never asked", "open")
