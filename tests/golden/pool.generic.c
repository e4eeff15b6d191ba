/* Written by `make golden`; do not edit. */

/* ---- the largest of 2x2 ---- */

/* gcc 12 takes members of the arena that begin at one address for the smallest of them: a false alarm where it inlines
 * a kernel that writes a larger one. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#endif

/* pool max 2x2 s2, step @0 (pool.generic): x0 f32[1,4,8,6] -> y0 f32[1,4,4,3]. y0 may lie over x0, hence no
 * restrict: what is overwritten there has been read. */
MCC_PLACE_CODE
static void net_k0_pool(const float *x0, float *y0)
{
    MCC_WRITES();
    for (int32_t c = 0; c < 4; ++c) {
        for (int32_t o0 = 0; o0 < 4; ++o0) {
            for (int32_t o1 = 0; o1 < 3; ++o1) {
                float acc = -INFINITY;
                for (int32_t k0 = 0; k0 < 2; ++k0) {
                    const int32_t i0 = o0 * 2 + k0;
                    for (int32_t k1 = 0; k1 < 2; ++k1) {
                        const int32_t i1 = o1 * 2 + k1;
                        acc = mcc_max_f32(acc, x0[c * 48 + i0 * 6 + i1]);
                    }
                }
                y0[c * 12 + o0 * 3 + o1] = acc;
            }
        }
    }
}

mcc_status net_run(const net_t *net)
{
    net_arena *const a = net->arena;

    /* @0 pool */
    MCC_STEP(0, net_k0_pool(a->x.v, a->y.v), a->y.v);

    return MCC_OK;
}

/* ---- the mean of 3x3, what is in the padding left out ---- */

/* gcc 12 takes members of the arena that begin at one address for the smallest of them: a false alarm where it inlines
 * a kernel that writes a larger one. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#endif

/* pool average 3x3 p1, step @0 (pool.generic): x0 f32[1,4,6,5] -> y0 f32[1,4,6,5]. y0 may lie over x0, hence no
 * restrict: what is overwritten there has been read. */
MCC_PLACE_CODE
static void net_k0_pool(const float *x0, float *y0)
{
    MCC_WRITES();
    for (int32_t c = 0; c < 4; ++c) {
        for (int32_t o0 = 0; o0 < 6; ++o0) {
            for (int32_t o1 = 0; o1 < 5; ++o1) {
                float acc = 0.0f;
                int32_t counted = 0;
                for (int32_t k0 = 0; k0 < 3; ++k0) {
                    const int32_t i0 = o0 + k0 - 1;
                    if ((i0 < 0) || (i0 >= 6)) {
                        continue;
                    }
                    for (int32_t k1 = 0; k1 < 3; ++k1) {
                        const int32_t i1 = o1 + k1 - 1;
                        if ((i1 < 0) || (i1 >= 5)) {
                            continue;
                        }
                        ++counted;
                        acc = acc + x0[c * 30 + i0 * 5 + i1];
                    }
                }
                y0[c * 30 + o0 * 5 + o1] = acc / (float)counted;
            }
        }
    }
}

mcc_status net_run(const net_t *net)
{
    net_arena *const a = net->arena;

    /* @0 pool */
    MCC_STEP(0, net_k0_pool(a->x.v, a->y.v), a->y.v);

    return MCC_OK;
}
