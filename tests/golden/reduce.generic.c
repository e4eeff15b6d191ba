/* Written by `make golden`; do not edit. */

/* ---- the last axis ---- */

/* gcc 12 takes members of the arena that begin at one address for the smallest of them: a false alarm where it inlines
 * a kernel that writes a larger one. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#endif

/* reduce mode='max' axes=(1,), step @0 (reduce.generic): x0 f32[4,75] read as neg(acc) -> y0 f32[4,1]. */
MCC_PLACE_CODE
static void net_k0_reduce(const float *MCC_RESTRICT x0, float *MCC_RESTRICT y0)
{
    MCC_WRITES();
    for (int32_t i0 = 0; i0 < 4; ++i0) {
        float acc = -INFINITY;
        for (int32_t r0 = 0; r0 < 75; ++r0) {
            acc = mcc_max_f32(acc, -x0[i0 * 75 + r0]);
        }
        y0[i0] = acc;
    }
}

mcc_status net_run(const net_t *net)
{
    net_arena *const a = net->arena;

    /* @0 reduce */
    MCC_STEP(0, net_k0_reduce(a->x.v, a->y.v), a->y.v);

    return MCC_OK;
}

/* ---- outer axes: a mean over pixels of each channel ---- */

/* gcc 12 takes members of the arena that begin at one address for the smallest of them: a false alarm where it inlines
 * a kernel that writes a larger one. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#endif

/* reduce mode='sum' axes=(2,3), step @0 (reduce.generic): x0 f32[1,6,5,7] -> y0 f32[1,6,1,1] = acc * 0.028571429. */
MCC_PLACE_CODE
static void net_k0_reduce(const float *MCC_RESTRICT x0, float *MCC_RESTRICT y0)
{
    MCC_WRITES();
    for (int32_t i0 = 0; i0 < 6; ++i0) {
        float acc = 0.0f;
        for (int32_t r0 = 0; r0 < 35; ++r0) {
            acc = acc + x0[i0 * 35 + r0];
        }
        y0[i0] = acc * 0.028571429f;
    }
}

mcc_status net_run(const net_t *net)
{
    net_arena *const a = net->arena;

    /* @0 reduce */
    MCC_STEP(0, net_k0_reduce(a->x.v, a->y.v), a->y.v);

    return MCC_OK;
}
