/* Written by `make golden`; do not edit. */

/* ---- along a row: the lanes are combined at its end ---- */

/* gcc 12 takes members of the arena that begin at one address for the smallest of them: a false alarm where it inlines
 * a kernel that writes a larger one. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#endif

/* reduce mode='max' axes=(1,), step @0 (reduce.vector): x0 f32[4,75] read as neg(acc) -> y0 f32[4,1]. */
MCC_PLACE_CODE
static void net_k0_reduce(const float *MCC_RESTRICT x0, float *MCC_RESTRICT y0)
{
    MCC_WRITES();
    for (int32_t i0 = 0; i0 < 4; ++i0) {
        mcc_vf acc = mcc_vset(-INFINITY);
        {
            mcc_vf part[4];
            MCC_UNROLL_FULLY
            for (int32_t j = 0; j < 4; ++j) {
                part[j] = mcc_vset(-INFINITY);
            }
            for (int32_t n = 0; n < 64; n += 32) {
                MCC_UNROLL_FULLY
                for (int32_t j = 0; j < 4; ++j) {
                    const mcc_vf value = -mcc_vload(&x0[i0 * 75 + n + j * 8]);
                    part[j] = mcc_vmax(part[j], value);
                }
            }
            {
                const mcc_vf value = -mcc_vload(&x0[i0 * 75 + 64]);
                part[0] = mcc_vmax(part[0], value);
            }
            {
                const mcc_vf value = -mcc_vload_n(&x0[i0 * 75 + 72], 3);
                part[0] = mcc_vmax(part[0], mcc_vfirst(3, value, mcc_vset(-INFINITY)));
            }
            MCC_UNROLL_FULLY
            for (int32_t j = 0; j < 4; ++j) {
                acc = mcc_vmax(acc, part[j]);
            }
        }
        y0[i0] = mcc_vtop(acc);
    }
}

mcc_status net_run(const net_t *net)
{
    net_arena *const a = net->arena;

    /* @0 reduce */
    MCC_STEP(0, net_k0_reduce(a->x.v, a->y.v), a->y.v);

    return MCC_OK;
}

/* ---- across rows: a vector of results ---- */

/* gcc 12 takes members of the arena that begin at one address for the smallest of them: a false alarm where it inlines
 * a kernel that writes a larger one. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#endif

/* reduce mode='sum' axes=(1,), step @0 (reduce.vector): x0 f32[3,6,40] -> y0 f32[3,1,40] = acc * 0.16666667. */
MCC_PLACE_CODE
static void net_k0_reduce(const float *MCC_RESTRICT x0, float *MCC_RESTRICT y0)
{
    MCC_WRITES();
    for (int32_t i0 = 0; i0 < 3; ++i0) {
        {
            const int32_t n = 0;
            mcc_vf acc[5] = { { 0.0f } };
            for (int32_t r0 = 0; r0 < 6; ++r0) {
                MCC_UNROLL_FULLY
                for (int32_t j = 0; j < 5; ++j) {
                    const mcc_vf value = mcc_vload(&x0[i0 * 240 + r0 * 40 + n + j * 8]);
                    acc[j] += value;
                }
            }
            MCC_UNROLL_FULLY
            for (int32_t j = 0; j < 5; ++j) {
                mcc_vstore(&y0[i0 * 40 + n + j * 8], acc[j] * mcc_vset(0.16666667f));
            }
        }
    }
}

mcc_status net_run(const net_t *net)
{
    net_arena *const a = net->arena;

    /* @0 reduce */
    MCC_STEP(0, net_k0_reduce(a->x.v, a->y.v), a->y.v);

    return MCC_OK;
}
