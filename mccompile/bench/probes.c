/* SPDX-License-Identifier: 0BSD */
/* probes.c - loops that find out what a core can do: the caller takes their time. MCC_LANES are the floats of a vector. */
#include <stddef.h>
#include <stdint.h>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

typedef float vec __attribute__((vector_size(4 * MCC_LANES)));

void mcc_probe_multiply_add(float *out, size_t rounds);
void mcc_probe_pairs(int32_t *out, size_t rounds);
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

/* 24 vectors of products of pairs of 16 bits in each round, added to eight sums: PMADDWD and PADDD. Nothing elsewhere. */
void mcc_probe_pairs(int32_t *out, size_t rounds)
{
#if defined(__SSE2__) && (MCC_LANES == 4 || MCC_LANES == 8 || MCC_LANES == 16)
#if MCC_LANES == 4
    typedef __m128i words;
#define MADD _mm_madd_epi16
#define ADD _mm_add_epi32
#elif MCC_LANES == 8
    typedef __m256i words;
#define MADD _mm256_madd_epi16
#define ADD _mm256_add_epi32
#else
    typedef __m512i words;
#define MADD _mm512_madd_epi16
#define ADD _mm512_add_epi32
#endif
    words x = (words)((vec){ 0 } + (float)out[0]);
    words a = x, b = x, c = x, d = x, e = x, f = x, g = x, h = x;

#define PAIRS(sum) \
    __asm__("" : "+v"(x)); /* unknown: else equal products would be one */ \
    sum = ADD(sum, MADD(x, x)); \
    __asm__("" : "+v"(sum))
#define EIGHT PAIRS(a); PAIRS(b); PAIRS(c); PAIRS(d); PAIRS(e); PAIRS(f); PAIRS(g); PAIRS(h)
    for (size_t n = 0; n < rounds; ++n) {
        EIGHT;
        EIGHT;
        EIGHT;
    }
    a = ADD(ADD(ADD(a, b), ADD(c, d)), ADD(ADD(e, f), ADD(g, h)));
    __builtin_memcpy(out, &a, sizeof(a));
#else
    (void)out;
    (void)rounds;
#endif
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
