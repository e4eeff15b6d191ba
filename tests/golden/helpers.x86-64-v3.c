/* Written by `make golden`; do not edit. */

/* gcc 12 writes an address that is made of several pointers as one beside address 0, where nothing may be written, and
 * takes a function with no other stores for one without any: it drops calls of it. With this it does not. */
#if defined(__GNUC__) && !defined(__clang__) && !defined(__FRAMAC__)
#define MCC_WRITES() __atomic_signal_fence(__ATOMIC_SEQ_CST)
#else
#define MCC_WRITES() ((void)0)
#endif

/* Keeps a register tile in a function of its own, where its accumulators have all registers. */
#define MCC_NOINLINE __attribute__((noinline))

/* A function whose arguments are constants in each of the tiles that it becomes part of. */
#define MCC_INLINE static inline __attribute__((always_inline))

/* gcc 12 hoists the loads of later steps until accumulators spill; clang does not. */
#if defined(__clang__)
#define MCC_BARRIER() ((void)0)
#elif !defined(MCC_NO_ASM)
#define MCC_BARRIER() __asm__ volatile("" : : : "memory")
#else /* this leaves gcc more freedom, which it uses to spill */
#define MCC_BARRIER() __atomic_signal_fence(__ATOMIC_SEQ_CST)
#endif

/* Four steps of the loop that follows in one turn. */
#if defined(__clang__)
#define MCC_UNROLL _Pragma("clang loop unroll_count(4)")
#else
#define MCC_UNROLL _Pragma("GCC unroll 4")
#endif

/* The loop that follows is written out, so that arrays of vectors become registers. */
#if defined(__clang__)
#define MCC_UNROLL_FULLY _Pragma("clang loop unroll(full)")
#else
#define MCC_UNROLL_FULLY _Pragma("GCC unroll 1024")
#endif

/* 8 floats. */
typedef float mcc_vf __attribute__((vector_size(32)));

/* The same at any address. gcc 12 takes a memcpy to one member of a union for one to a
 * smaller one. */
typedef float mcc_vf_unaligned __attribute__((vector_size(32), aligned(4), may_alias));

/* 8 whole numbers. Masks are such: all bits set or none. */
typedef int32_t mcc_vi __attribute__((vector_size(32)));

/* 8 whole numbers without sign: sums and products of these wrap. */
typedef uint32_t mcc_vu __attribute__((vector_size(32)));

/* The loads and stores of AVX2 that leave lanes out. */
#include <immintrin.h>

/* The first n lanes. */
MCC_PLACE_CODE
static inline __m256i mcc_mask(int32_t n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/* p[0] .. p[n - 1] and zeros; touches nothing else. */
MCC_PLACE_CODE
static inline mcc_vf mcc_vload_n(const float *p, int32_t n)
{
    return (mcc_vf)_mm256_maskload_ps(p, mcc_mask(n));
}

/* a where the mask is set, else b. */
MCC_PLACE_CODE
static inline mcc_vf mcc_vselect(mcc_vi mask, mcc_vf a, mcc_vf b)
{
    return (mcc_vf)_mm256_blendv_ps((__m256)b, (__m256)a, (__m256)mask);
}

/* The larger of two; NaN if either is. */
MCC_PLACE_CODE
static inline mcc_vf mcc_vmax(mcc_vf a, mcc_vf b)
{
    const mcc_vf m = (mcc_vf)_mm256_max_ps((__m256)b, (__m256)a); /* of a and NaN it takes its second operand */
    return mcc_vselect(b != b, b, m);
}

/* e to the power of x for x from -87.3 to 88.3, within 2 ulp: 2^n for eighths n, of which a table
 * has the fraction's part, less its bits of n; NaN stays. */
MCC_PLACE_CODE
static inline mcc_vf mcc_vexp_near(mcc_vf x)
{
    const mcc_vf table = {
        1.000000000f, 1.090507733f, 1.189207115f, 1.296839555f,
        1.414213562f, 1.542210825f, 1.681792831f, 1.834008086f,
    };
    const mcc_vf shifted = x * 1.44269504f + 1572864.0f; /* 1.5 * 2^20: the last three bits are the fraction of n */
    const mcc_vf n = shifted - 1572864.0f;
    const mcc_vf r = (x - n * 0.693359375f) + n * 2.12194440e-4f; /* ln 2 in two parts */
    const __m256i last = (__m256i)shifted;
    const mcc_vu power = (mcc_vu)((mcc_vi)shifted >> 3) << 23;
    const mcc_vf part = (mcc_vf)((mcc_vu)_mm256_permutevar8x32_ps((__m256)table, last) + power);
    const mcc_vf q = (r * 0.166668579f + 0.500064492f) * r + 1.0f;
    return (part * r) * q + part;
}

/* p[0] .. p[7], at any address. */
MCC_PLACE_CODE
static inline mcc_vf mcc_vload(const float *p)
{
    mcc_vf v;
    __builtin_memcpy(&v, p, sizeof(v));
    return v;
}

/* v to p[0] .. p[7], at any address. */
MCC_PLACE_CODE
static inline void mcc_vstore(float *p, mcc_vf v)
{
    *(mcc_vf_unaligned *)p = v;
}

/* x in every lane. */
MCC_PLACE_CODE
static inline mcc_vf mcc_vset(float x)
{
    const mcc_vf v = { x, x, x, x, x, x, x, x };
    return v;
}

/* a * b + c, in one rounding where the target has it. */
MCC_PLACE_CODE
static inline mcc_vf mcc_vfma(mcc_vf a, mcc_vf b, mcc_vf c)
{
    return a * b + c;
}

/* Turns a square of 8 vectors: lane j of vector i becomes lane i of vector j. Vectors that lie 1, 2, 4 ...
 * apart swap blocks of so many lanes: a0 a1 a2 a3 | b0 b1 b2 b3 | ... become a0 b0 a2 b2 | a1 b1 a3 b3 | ... first. */
MCC_PLACE_CODE
MCC_INLINE void mcc_vturn(mcc_vf *v)
{
    MCC_UNROLL_FULLY
    for (int32_t i = 0; i < 4; ++i) {
        const int32_t n = i * 2;
        const mcc_vf w = v[n];
        v[n] = __builtin_shufflevector(w, v[n + 1], 0, 8, 2, 10, 4, 12, 6, 14);
        v[n + 1] = __builtin_shufflevector(w, v[n + 1], 1, 9, 3, 11, 5, 13, 7, 15);
    }
    MCC_UNROLL_FULLY
    for (int32_t i = 0; i < 4; ++i) {
        const int32_t n = i / 2 * 4 + i % 2;
        const mcc_vf w = v[n];
        v[n] = __builtin_shufflevector(w, v[n + 2], 0, 1, 8, 9, 4, 5, 12, 13);
        v[n + 2] = __builtin_shufflevector(w, v[n + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    }
    MCC_UNROLL_FULLY
    for (int32_t i = 0; i < 4; ++i) {
        const int32_t n = i / 4 * 8 + i % 4;
        const mcc_vf w = v[n];
        v[n] = __builtin_shufflevector(w, v[n + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        v[n + 4] = __builtin_shufflevector(w, v[n + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
}

/* to[i * pitch + n] = from[n * lane + i] for i below count and n below 8, as whole
 * vectors; zeros from the n behind `rows` on, of which nothing is read. */
MCC_PLACE_CODE
static MCC_NOINLINE void mcc_vtranspose(
    const float *from, int32_t lane, int32_t rows, int32_t count, float *to, int32_t pitch)
{
    MCC_WRITES();
    mcc_vf v[8];
    if ((rows == 8) && (count == 8)) {
        MCC_UNROLL_FULLY
        for (int32_t n = 0; n < 8; ++n) {
            v[n] = mcc_vload(from + n * lane);
        }
    } else {
        MCC_UNROLL_FULLY
        for (int32_t n = 0; n < 8; ++n) {
            v[n] = mcc_vset(0.0f);
            if (n < rows) {
                v[n] = mcc_vload_n(from + n * lane, count);
            }
        }
    }
    mcc_vturn(v);
    MCC_UNROLL_FULLY
    for (int32_t i = 0; i < 8; ++i) {
        if (i < count) {
            mcc_vstore(to + i * pitch, v[i]);
        }
    }
}

/* The first n lanes of a, the others of b. */
MCC_PLACE_CODE
static inline mcc_vf mcc_vfirst(int32_t n, mcc_vf a, mcc_vf b)
{
    const mcc_vi lane = { 0, 1, 2, 3, 4, 5, 6, 7 };
    return mcc_vselect(lane < n, a, b);
}

/* All lanes of a vector in one. */
MCC_PLACE_CODE
static inline float mcc_vsum(mcc_vf v)
{
    mcc_vf w;
    w = __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3);
    v = v + w;
    w = __builtin_shufflevector(v, v, 2, 3, 4, 5, 6, 7, 0, 1);
    v = v + w;
    w = __builtin_shufflevector(v, v, 1, 2, 3, 4, 5, 6, 7, 0);
    v = v + w;
    return v[0];
}

/* All lanes of a vector in one. */
MCC_PLACE_CODE
static inline float mcc_vtop(mcc_vf v)
{
    mcc_vf w;
    w = __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3);
    v = mcc_vmax(v, w);
    w = __builtin_shufflevector(v, v, 2, 3, 4, 5, 6, 7, 0, 1);
    v = mcc_vmax(v, w);
    w = __builtin_shufflevector(v, v, 1, 2, 3, 4, 5, 6, 7, 0);
    v = mcc_vmax(v, w);
    return v[0];
}

/* e to the power of x for x up to 88.3, within 2 ulp, and 0 below -87.3. */
MCC_PLACE_CODE
static inline mcc_vf mcc_vexp_below(mcc_vf x)
{
    const mcc_vi zero = x < -87.3f;
    return (mcc_vf)((mcc_vi)mcc_vexp_near(mcc_vmax(x, mcc_vset(-87.3f))) & ~zero);
}

/* max(x, 0), which keeps NaN. */
MCC_PLACE_CODE
static inline mcc_vf mcc_vrelu(mcc_vf x)
{
    return (mcc_vf)((mcc_vi)x & ~(x < 0.0f));
}

/* How many taps lie in front of an operand if the first of them is at `left`. */
MCC_PLACE_CODE
static inline int32_t mcc_taps_before(int32_t left, int32_t dilation)
{
    return (left < 0) ? ((dilation - 1 - left) / dilation) : 0;
}

/* How many of `taps` do not lie behind an operand that has `room` elements from the first tap on. */
MCC_PLACE_CODE
static inline int32_t mcc_taps_until(int32_t room, int32_t dilation, int32_t taps)
{
    const int32_t inside = (dilation - 1 + room) / dilation;
    return (inside < taps) ? inside : taps;
}

/* Where many steps are written out, clang hoists their loads as well. */
#if !defined(MCC_NO_ASM)
#define MCC_FENCE() __asm__ volatile("" : : : "memory")
#else
#define MCC_FENCE() __atomic_signal_fence(__ATOMIC_SEQ_CST)
#endif

/* The first n lanes to p[0] .. p[n - 1], in pieces: a masked store takes longer. */
MCC_PLACE_CODE
static inline void mcc_vstore_n(float *p, mcc_vf v, int32_t n)
{
    __m128 part = _mm256_castps256_ps128((__m256)v);
    if ((n & 4) != 0) {
        __builtin_memcpy(p, &part, 16);
        part = _mm256_extractf128_ps((__m256)v, 1);
        p += 4;
    }
    if ((n & 2) != 0) {
        __builtin_memcpy(p, &part, 8);
        part = _mm_movehl_ps(part, part);
        p += 2;
    }
    if ((n & 1) != 0) {
        __builtin_memcpy(p, &part, 4);
    }
}

/* a * b + c, in one rounding where the target has it. */
MCC_PLACE_CODE
static inline mcc_vf mcc_vfma(mcc_vf a, mcc_vf b, mcc_vf c)
{
    return a * b + c;
}

/* Has gcc compute v, a vector, here and keep it in a register; clang does so by itself. */
#if defined(__clang__) || defined(MCC_NO_ASM)
#define MCC_HOLD(v) ((void)0)
#else
#define MCC_HOLD(v) __asm__("" : "+x"(v))
#endif

/* As mcc_vload, into a register: gcc 12 would load it again for each of two or three products. */
MCC_PLACE_CODE
static inline mcc_vf mcc_vload_once(const float *p)
{
    mcc_vf v = mcc_vload(p);
    MCC_HOLD(v);
    return v;
}

/* p[0], p[2] .. p[14]. */
MCC_PLACE_CODE
static inline mcc_vf mcc_vload2(const float *p)
{
    return __builtin_shufflevector(mcc_vload(p), mcc_vload(p + 7),
        0, 2, 4, 6, 9, 11, 13, 15);
}

/* The smaller of two; NaN if either is. */
MCC_PLACE_CODE
static inline mcc_vf mcc_vmin(mcc_vf a, mcc_vf b)
{
    const mcc_vf m = (mcc_vf)_mm256_min_ps((__m256)b, (__m256)a);
    return mcc_vselect(b != b, b, m);
}

/* exp(r) - 1 for r in [-ln 2 / 2, ln 2 / 2], within 1.3e-8 of r but for rounding. */
MCC_PLACE_CODE
static inline mcc_vf mcc_vexp_rest(mcc_vf r)
{
    mcc_vf p = r * 1.39464485e-3f + 8.36658198e-3f;
    p = p * r + 4.16662805e-2f;
    p = p * r + 1.66665435e-1f;
    p = p * r + 0.5f;
    return p * (r * r) + r;
}

/* a / (1 + exp(-x)), which is a * sigmoid(x), within 3 ulp; sigmoids below 2^-126 may count as 0.
 * Processors divide beside the multiplications of the next vector, an approximated reciprocal is among them. */
MCC_PLACE_CODE
static inline mcc_vf mcc_vgate(mcc_vf a, mcc_vf x)
{
    const mcc_vf e = mcc_vexp_near(mcc_vmin(mcc_vmax(-x, mcc_vset(-87.0f)), mcc_vset(88.0f)));
    return a / mcc_vselect(x < -88.0f, mcc_vset(INFINITY), 1.0f + e);
}

/* 1 / (1 + exp(-x)), within 3 ulp; below 2^-126 it may be 0. */
MCC_PLACE_CODE
static inline mcc_vf mcc_vsigmoid(mcc_vf x)
{
    return mcc_vgate(mcc_vset(1.0f), x);
}

/* e / (e + 2) with e = exp(2 x) - 1, which keeps its digits near zero; within 4 ulp. */
MCC_PLACE_CODE
static inline mcc_vf mcc_vtanh(mcc_vf x)
{
    const mcc_vf inside = mcc_vmin(mcc_vmax(x, mcc_vset(-9.1f)), mcc_vset(9.1f)); /* 1 beyond, and no overflow */
    const mcc_vf shifted = inside * 2.88539008f + 12582912.0f;
    const mcc_vf whole = shifted - 12582912.0f;
    const mcc_vf r = (inside * 2.0f - whole * 0.693359375f) + whole * 2.12194440e-4f;
    const mcc_vf power = (mcc_vf)(((mcc_vu)shifted << 23) + 0x3F800000u);
    const mcc_vf e = mcc_vexp_rest(r) * power + (power - 1.0f);
    return e / (e + 2.0f);
}

/* a / (1 + exp(-x)), which is a * sigmoid(x), within 3 ulp; sigmoids below 2^-126 may count as 0.
 * Processors divide beside the multiplications of the next vector, an approximated reciprocal is among them. */
MCC_PLACE_CODE
static inline mcc_vf mcc_vgate(mcc_vf a, mcc_vf x)
{
    const mcc_vf e = mcc_vexp_near(mcc_vmin(mcc_vmax(-x, mcc_vset(-87.0f)), mcc_vset(88.0f)));
    return a / mcc_vselect(x < -88.0f, mcc_vset(INFINITY), 1.0f + e);
}

/* x in every lane. */
MCC_PLACE_CODE
static inline mcc_vf mcc_vset(float x)
{
    const mcc_vf v = { x, x, x, x, x, x, x, x };
    return v;
}

/* p[0] .. p[n - 1], halves, and zeros; touches nothing else. */
MCC_PLACE_CODE
static inline mcc_vf mcc_vload_f16(const uint16_t *p, int32_t n)
{
    __m128i h = _mm_setzero_si128();
    __builtin_memcpy(&h, p, 2u * (size_t)n);
    return (mcc_vf)_mm256_cvtph_ps(h);
}

/* The halves nearest to the first n lanes to p[0] .. p[n - 1], ties to even. */
MCC_PLACE_CODE
static inline void mcc_vstore_f16(uint16_t *p, mcc_vf v, int32_t n)
{
    const __m128i h = _mm256_cvtps_ph((__m256)v, 0);
    __builtin_memcpy(p, &h, 2u * (size_t)n);
}

/* p[0] .. p[n - 1] and zeros; touches nothing else. */
MCC_PLACE_CODE
static inline mcc_vi mcc_vload_i32_n(const int32_t *p, int32_t n)
{
    return (mcc_vi)_mm256_maskload_epi32(p, mcc_mask(n));
}

/* The first n lanes to p[0] .. p[n - 1]; touches nothing else. */
MCC_PLACE_CODE
static inline void mcc_vstore_i32_n(int32_t *p, mcc_vi v, int32_t n)
{
    mcc_vstore_n((float *)p, (mcc_vf)v, n); /* which copies bytes */
}

/* The larger of two. */
MCC_PLACE_CODE
static inline mcc_vi mcc_vmax_i32(mcc_vi a, mcc_vi b)
{
    return (mcc_vi)_mm256_max_epi32((__m256i)a, (__m256i)b);
}

/* mcc_vi at any address. */
typedef int32_t mcc_vi_unaligned __attribute__((vector_size(32), aligned(4), may_alias));

/* p[0] .. p[7], at any address. */
MCC_PLACE_CODE
static inline mcc_vi mcc_vload_i32(const int32_t *p)
{
    mcc_vi v;
    __builtin_memcpy(&v, p, sizeof(v));
    return v;
}

/* v to p[0] .. p[7], at any address. */
MCC_PLACE_CODE
static inline void mcc_vstore_i32(int32_t *p, mcc_vi v)
{
    *(mcc_vi_unaligned *)p = v;
}

/* x in every lane. */
MCC_PLACE_CODE
static inline mcc_vi mcc_vset_i32(int32_t x)
{
    const mcc_vi v = { x, x, x, x, x, x, x, x };
    return v;
}

/* a where the mask is set, else b. */
MCC_PLACE_CODE
static inline mcc_vi mcc_vselect_i32(mcc_vi mask, mcc_vi a, mcc_vi b)
{
    return (mcc_vi)mcc_vselect(mask, (mcc_vf)a, (mcc_vf)b);
}

/* All lanes of a vector in one. */
MCC_PLACE_CODE
static inline float mcc_vsum(mcc_vf v)
{
    mcc_vf w;
    w = __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3);
    v = v + w;
    w = __builtin_shufflevector(v, v, 2, 3, 4, 5, 6, 7, 0, 1);
    v = v + w;
    w = __builtin_shufflevector(v, v, 1, 2, 3, 4, 5, 6, 7, 0);
    v = v + w;
    return v[0];
}

/* The power of two by which a number becomes one from 1 to 2; a larger one from 2^127 on, a smaller one below 2^-126:
 neither the power nor what undoes it is too small for a float. */
MCC_PLACE_CODE
static inline float mcc_power_to_one(float size)
{
    union { uint32_t u; float f; } from, power;
    from.f = size;
    const uint32_t exponent = (from.u >> 23) & 0xFFu;
    power.u = ((exponent > 253u) ? 1u : ((exponent < 1u) ? 253u : (254u - exponent))) << 23;
    return power.f;
}

/* An array of vectors stays in memory: it takes no register from loops that leave it alone. */
#if defined(MCC_NO_ASM)
#define MCC_IN_MEMORY(array) ((void)(array))
#else
#define MCC_IN_MEMORY(array) __asm__ volatile("" : : "r"(array) : "memory")
#endif

/* max(x, 0), which keeps NaN. */
MCC_PLACE_CODE
static inline mcc_vf mcc_vrelu(mcc_vf x)
{
    return (mcc_vf)((mcc_vi)x & ~(x < 0.0f));
}

/* Magnitudes. */
MCC_PLACE_CODE
static inline mcc_vf mcc_vabs(mcc_vf x)
{
    return (mcc_vf)((mcc_vi)x & 0x7FFFFFFF);
}

/* All lanes of a vector in one. */
MCC_PLACE_CODE
static inline float mcc_vtop(mcc_vf v)
{
    mcc_vf w;
    w = __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3);
    v = mcc_vmax(v, w);
    w = __builtin_shufflevector(v, v, 2, 3, 4, 5, 6, 7, 0, 1);
    v = mcc_vmax(v, w);
    w = __builtin_shufflevector(v, v, 1, 2, 3, 4, 5, 6, 7, 0);
    v = mcc_vmax(v, w);
    return v[0];
}

/* Square roots. */
MCC_PLACE_CODE
static inline mcc_vf mcc_vsqrt(mcc_vf x)
{
    return (mcc_vf)_mm256_sqrt_ps((__m256)x);
}

/* v to p[0] .. p[7], at any address. */
MCC_PLACE_CODE
static inline void mcc_vstore(float *p, mcc_vf v)
{
    *(mcc_vf_unaligned *)p = v;
}
