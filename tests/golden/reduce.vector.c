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
            mcc_vf part_0 = mcc_vset(-INFINITY);
            mcc_vf part_1 = mcc_vset(-INFINITY);
            mcc_vf part_2 = mcc_vset(-INFINITY);
            mcc_vf part_3 = mcc_vset(-INFINITY);
            for (int32_t n = 0; n < 64; n += 32) {
                {
                    const mcc_vf value = -mcc_vload(&x0[i0 * 75 + n]);
                    part_0 = mcc_vmax(part_0, value);
                }
                {
                    const mcc_vf value = -mcc_vload(&x0[i0 * 75 + n + 8]);
                    part_1 = mcc_vmax(part_1, value);
                }
                {
                    const mcc_vf value = -mcc_vload(&x0[i0 * 75 + n + 16]);
                    part_2 = mcc_vmax(part_2, value);
                }
                {
                    const mcc_vf value = -mcc_vload(&x0[i0 * 75 + n + 24]);
                    part_3 = mcc_vmax(part_3, value);
                }
            }
            {
                const mcc_vf value = -mcc_vload(&x0[i0 * 75 + 64]);
                part_0 = mcc_vmax(part_0, value);
            }
            {
                const mcc_vf value = -mcc_vload_n(&x0[i0 * 75 + 72], 3);
                part_0 = mcc_vmax(part_0, mcc_vfirst(3, value, mcc_vset(-INFINITY)));
            }
            acc = mcc_vmax(acc, part_0);
            acc = mcc_vmax(acc, part_1);
            acc = mcc_vmax(acc, part_2);
            acc = mcc_vmax(acc, part_3);
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
            mcc_vf acc_0 = { 0.0f };
            mcc_vf acc_1 = { 0.0f };
            mcc_vf acc_2 = { 0.0f };
            mcc_vf acc_3 = { 0.0f };
            mcc_vf acc_4 = { 0.0f };
            for (int32_t r0 = 0; r0 < 6; ++r0) {
                {
                    const mcc_vf value = mcc_vload(&x0[i0 * 240 + r0 * 40 + n]);
                    acc_0 += value;
                }
                {
                    const mcc_vf value = mcc_vload(&x0[i0 * 240 + r0 * 40 + n + 8]);
                    acc_1 += value;
                }
                {
                    const mcc_vf value = mcc_vload(&x0[i0 * 240 + r0 * 40 + n + 16]);
                    acc_2 += value;
                }
                {
                    const mcc_vf value = mcc_vload(&x0[i0 * 240 + r0 * 40 + n + 24]);
                    acc_3 += value;
                }
                {
                    const mcc_vf value = mcc_vload(&x0[i0 * 240 + r0 * 40 + n + 32]);
                    acc_4 += value;
                }
            }
            mcc_vstore(&y0[i0 * 40 + n], acc_0 * mcc_vset(0.16666667f));
            mcc_vstore(&y0[i0 * 40 + n + 8], acc_1 * mcc_vset(0.16666667f));
            mcc_vstore(&y0[i0 * 40 + n + 16], acc_2 * mcc_vset(0.16666667f));
            mcc_vstore(&y0[i0 * 40 + n + 24], acc_3 * mcc_vset(0.16666667f));
            mcc_vstore(&y0[i0 * 40 + n + 32], acc_4 * mcc_vset(0.16666667f));
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
