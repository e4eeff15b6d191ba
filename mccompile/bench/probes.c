/* SPDX-License-Identifier: 0BSD */
/* probes.c - loops that find out what a core can do: the caller takes their time. MCC_LANES are the floats of a vector. */
#include <stddef.h>
#include <stdint.h>

typedef float vec __attribute__((vector_size(4 * MCC_LANES)));

void mcc_probe_multiply_add(float *out, size_t rounds);
void mcc_probe_cycles(uint64_t *out, size_t rounds);
void mcc_probe_copy(float *to, const float *from, size_t vectors, size_t rounds);

/* 24 vectors of multiply-adds in each round, in 12 chains: more than latency times units anywhere. */
void mcc_probe_multiply_add(float *out, size_t rounds)
{
    const vec m = (vec){ 0 } + 0.999f;
    const vec s = (vec){ 0 } + 0.001f;
    const vec x = (vec){ 0 } + out[0]; /* unknown: else equal chains would be one */
    vec a = x * 1.0f, b = x * 2.0f, c = x * 3.0f, d = x * 4.0f, e = x * 5.0f, f = x * 6.0f;
    vec g = x * 7.0f, h = x * 8.0f, i = x * 9.0f, j = x * 10.0f, k = x * 11.0f, l = x * 12.0f;

#define STEP(chain) chain = (chain * m) + s
#define STEPS \
    STEP(a); STEP(b); STEP(c); STEP(d); STEP(e); STEP(f); STEP(g); STEP(h); STEP(i); STEP(j); STEP(k); STEP(l)
    for (size_t n = 0; n < rounds; ++n) {
        STEPS;
        STEPS;
    }
    a = a + b + c + d + e + f + g + h + i + j + k + l;
    for (size_t n = 0; n < MCC_LANES; ++n) {
        out[n] = a[n];
    }
}

/* 64 additions in each round, each of which waits for the one before: a cycle each. */
void mcc_probe_cycles(uint64_t *out, size_t rounds)
{
    uint64_t x = *out;

#define ONE \
    x += rounds; \
    __asm__ volatile("" : "+r"(x))
#define FOUR ONE; ONE; ONE; ONE
#define SIXTEEN FOUR; FOUR; FOUR; FOUR
    for (size_t n = 0; n < rounds; ++n) {
        SIXTEEN;
        SIXTEEN;
        SIXTEEN;
        SIXTEEN;
    }
    *out = x;
}

void mcc_probe_copy(float *to, const float *from, size_t vectors, size_t rounds)
{
    const vec *const x = (const vec *)(const void *)from;
    vec *const y = (vec *)(void *)to;

    for (size_t n = 0; n < rounds; ++n) {
        for (size_t v = 0; v < vectors; ++v) {
            y[v] = x[v] * 0.5f;
        }
        __asm__ volatile("" : : : "memory");
    }
}
