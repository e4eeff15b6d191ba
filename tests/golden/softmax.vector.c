/* Written by `make golden`; do not edit. */

/* ---- along a row, with what comes before and behind ---- */

/* gcc 12 takes members of the arena that begin at one address for the smallest of them: a false alarm where it inlines
 * a kernel that writes a larger one. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#endif

/* softmax axis=1, step @0 (softmax.vector): x0 f32[2,30] read as neg(acc), e0 f32[2,30] -> y0 f32[2,30] = acc + e0.
 * y0 may lie over x0, hence no restrict: what is overwritten there has been read. */
MCC_PLACE_CODE
static void net_k0_softmax(const float *x0, const float *MCC_RESTRICT e0, float *y0)
{
    MCC_WRITES();
    for (int32_t i0 = 0; i0 < 2; ++i0) {
        const mcc_vf x_0 = -mcc_vload(&x0[i0 * 30]);
        const mcc_vf x_1 = -mcc_vload(&x0[i0 * 30 + 8]);
        const mcc_vf x_2 = -mcc_vload(&x0[i0 * 30 + 16]);
        const mcc_vf x_3 = -mcc_vload_n(&x0[i0 * 30 + 24], 6);
        const mcc_vf top = mcc_vset(mcc_vtop(mcc_vmax(mcc_vmax(x_0, x_1),
            mcc_vmax(x_2, mcc_vfirst(6, x_3, mcc_vset(-INFINITY))))));
        const mcc_vf e_0 = mcc_vexp_below(x_0 - top);
        const mcc_vf e_1 = mcc_vexp_below(x_1 - top);
        const mcc_vf e_2 = mcc_vexp_below(x_2 - top);
        const mcc_vf e_3 = mcc_vexp_below(x_3 - top);
        const mcc_vf sum = mcc_vset(mcc_vsum(((e_0 + e_1) + (e_2 + mcc_vfirst(6, e_3, mcc_vset(0.0f))))));
        const mcc_vf scale = 1.0f / sum;
        mcc_vstore(&y0[i0 * 30], (e_0 * scale) + mcc_vload(&e0[0]));
        mcc_vstore(&y0[i0 * 30 + 8], (e_1 * scale) + mcc_vload(&e0[8]));
        mcc_vstore(&y0[i0 * 30 + 16], (e_2 * scale) + mcc_vload(&e0[16]));
        mcc_vstore_n(&y0[i0 * 30 + 24], (e_3 * scale) + mcc_vload_n(&e0[24], 6), 6);
    }
}

mcc_status net_run(const net_t *net)
{
    net_arena *const a = net->arena;

    /* @0 softmax */
    MCC_STEP(0, net_k0_softmax(a->x.v, a->b.v, a->y.v), a->y.v);

    return MCC_OK;
}

/* ---- across rows: a vector of maxima and of sums ---- */

/* gcc 12 takes members of the arena that begin at one address for the smallest of them: a false alarm where it inlines
 * a kernel that writes a larger one. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#endif

/* softmax axis=1, step @0 (softmax.vector): x0 f32[2,9,20] -> y0 f32[2,9,20]. y0 may lie over x0, hence no restrict:
 * what is overwritten there has been read. */
MCC_PLACE_CODE
static void net_k0_softmax(const float *x0, float *y0)
{
    MCC_WRITES();
    for (int32_t i0 = 0; i0 < 2; ++i0) {
        for (int32_t n = 0; n < 16; n += 8) {
            {
                mcc_vf top = mcc_vset(-INFINITY);
                for (int32_t r0 = 0; r0 < 9; ++r0) {
                    const mcc_vf value = mcc_vload(&x0[i0 * 180 + r0 * 20 + n]);
                    top = mcc_vmax(top, value);
                }
                mcc_vf sum = { 0.0f };
                for (int32_t r0 = 0; r0 < 9; ++r0) {
                    {
                        const mcc_vf value = mcc_vload(&x0[i0 * 180 + r0 * 20 + n]);
                        const mcc_vf power = mcc_vexp_below(value - top);
                        sum += power;
                        mcc_vstore(&y0[i0 * 180 + r0 * 20 + n], power);
                    }
                }
                const mcc_vf scale = 1.0f / sum;
                for (int32_t r0 = 0; r0 < 9; ++r0) {
                    const mcc_vf result = mcc_vload(&y0[i0 * 180 + r0 * 20 + n]) * scale;
                    mcc_vstore(&y0[i0 * 180 + r0 * 20 + n], result);
                }
            }
        }
        {
            mcc_vf top = mcc_vset(-INFINITY);
            for (int32_t r0 = 0; r0 < 9; ++r0) {
                const mcc_vf value = mcc_vload_n(&x0[i0 * 180 + r0 * 20 + 16], 4);
                top = mcc_vmax(top, value);
            }
            mcc_vf sum = { 0.0f };
            for (int32_t r0 = 0; r0 < 9; ++r0) {
                {
                    const mcc_vf value = mcc_vload_n(&x0[i0 * 180 + r0 * 20 + 16], 4);
                    const mcc_vf power = mcc_vexp_below(value - top);
                    sum += power;
                    mcc_vstore_n(&y0[i0 * 180 + r0 * 20 + 16], power, 4);
                }
            }
            const mcc_vf scale = 1.0f / sum;
            for (int32_t r0 = 0; r0 < 9; ++r0) {
                const mcc_vf result = mcc_vload_n(&y0[i0 * 180 + r0 * 20 + 16], 4) * scale;
                mcc_vstore_n(&y0[i0 * 180 + r0 * 20 + 16], result, 4);
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
