/* Written by `make golden`; do not edit. */

/* ---- the last axis ---- */

/* gcc 12 takes members of the arena that begin at one address for the smallest of them: a false alarm where it inlines
 * a kernel that writes a larger one. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#endif

/* softmax axis=1, step @0 (softmax.generic): x0 f32[2,30] -> y0 f32[2,30]. y0 may lie over x0, hence no restrict:
 * what is overwritten there has been read. */
MCC_PLACE_CODE
static void net_k0_softmax(const float *x0, float *y0)
{
    MCC_WRITES();
    for (int32_t i0 = 0; i0 < 2; ++i0) {
        float top = -INFINITY;
        for (int32_t r0 = 0; r0 < 30; ++r0) {
            top = mcc_max_f32(top, x0[i0 * 30 + r0]);
        }
        float sum = 0.0f;
        for (int32_t r0 = 0; r0 < 30; ++r0) {
            const float power = expf(x0[i0 * 30 + r0] - top);
            y0[i0 * 30 + r0] = power;
            sum += power;
        }
        const float scale = 1 / sum;
        for (int32_t r0 = 0; r0 < 30; ++r0) {
            y0[i0 * 30 + r0] *= scale;
        }
    }
}

mcc_status net_run(const net_t *net)
{
    net_arena *const a = net->arena;

    /* @0 softmax */
    MCC_STEP(0, net_k0_softmax(a->x.v, a->y.v), a->y.v);

    return MCC_OK;
}

/* ---- an inner axis, the logarithm ---- */

/* gcc 12 takes members of the arena that begin at one address for the smallest of them: a false alarm where it inlines
 * a kernel that writes a larger one. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#endif

/* softmax axis=1 mode='log', step @0 (softmax.generic): x0 f32[2,9,4] -> y0 f32[2,9,4]. y0 may lie over x0, hence no
 * restrict: what is overwritten there has been read. */
MCC_PLACE_CODE
static void net_k0_softmax(const float *x0, float *y0)
{
    MCC_WRITES();
    for (int32_t i0 = 0; i0 < 2; ++i0) {
        for (int32_t i1 = 0; i1 < 4; ++i1) {
            float top = -INFINITY;
            for (int32_t r0 = 0; r0 < 9; ++r0) {
                top = mcc_max_f32(top, x0[i0 * 36 + i1 + r0 * 4]);
            }
            float sum = 0.0f;
            for (int32_t r0 = 0; r0 < 9; ++r0) {
                sum += expf(x0[i0 * 36 + i1 + r0 * 4] - top);
            }
            const float shift = logf(sum);
            for (int32_t r0 = 0; r0 < 9; ++r0) {
                y0[i0 * 36 + i1 + r0 * 4] = x0[i0 * 36 + i1 + r0 * 4] - top - shift;
            }
        }
    }
}

mcc_status net_run(const net_t *net)
{
    net_arena *const a = net->arena;

    /* @0 softmax */
    MCC_STEP(0, net_k0_softmax(a->x.v, a->y.v), a->y.v);

    return MCC_OK;
}
