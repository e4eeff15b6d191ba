/* Written by `make golden`; do not edit. */

/* ---- layer normalisation with scale and shift ---- */

/* gcc 12 takes members of the arena that begin at one address for the smallest of them: a false alarm where it inlines
 * a kernel that writes a larger one. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#endif

/* normalize axes=(1,) epsilon=1e-05, step @0 (normalize.vector): x0 f32[3,40], e0 constants f32[40], e1 constants
 * f32[40] -> y0 f32[3,40] = (acc * e0) + e1. y0 may lie over x0, hence no restrict: what is overwritten there has
 * been read. */
MCC_PLACE_CODE
static void net_k0_normalize(const float *x0, const float *MCC_RESTRICT e0, const float *MCC_RESTRICT e1, float *y0)
{
    MCC_WRITES();
    for (int32_t i0 = 0; i0 < 3; ++i0) {
        const mcc_vf pivot = mcc_vset(x0[i0 * 40]);
        mcc_vf sum = { 0.0f };
        {
            mcc_vf part[4] = { { 0.0f } };
            MCC_UNROLL_FULLY
            for (int32_t j = 0; j < 4; ++j) {
                const mcc_vf value = mcc_vload(&x0[i0 * 40 + j * 8]);
                const mcc_vf d = value - pivot;
                part[j] += d;
            }
            {
                const mcc_vf value = mcc_vload(&x0[i0 * 40 + 32]);
                const mcc_vf d = value - pivot;
                part[0] += d;
            }
            MCC_UNROLL_FULLY
            for (int32_t j = 0; j < 4; ++j) {
                sum += part[j];
            }
        }
        const mcc_vf mean = pivot + mcc_vset(mcc_vsum(sum)) / 40.0f;
        mcc_vf squares = { 0.0f };
        {
            mcc_vf part[4] = { { 0.0f } };
            MCC_UNROLL_FULLY
            for (int32_t j = 0; j < 4; ++j) {
                const mcc_vf value = mcc_vload(&x0[i0 * 40 + j * 8]);
                const mcc_vf d = value - mean;
                part[j] += d * d;
            }
            {
                const mcc_vf value = mcc_vload(&x0[i0 * 40 + 32]);
                const mcc_vf d = value - mean;
                part[0] += d * d;
            }
            MCC_UNROLL_FULLY
            for (int32_t j = 0; j < 4; ++j) {
                squares += part[j];
            }
        }
        const mcc_vf scale = 1.0f / mcc_vsqrt(mcc_vset(mcc_vsum(squares)) / 40.0f + mcc_vset(1e-05f));
        {
            MCC_UNROLL_FULLY
            for (int32_t j = 0; j < 4; ++j) {
                const mcc_vf value = mcc_vload(&x0[i0 * 40 + j * 8]);
                mcc_vstore(&y0[i0 * 40 + j * 8],
                    (((value - mean) * scale) * mcc_vload(&e0[j * 8])) + mcc_vload(&e1[j * 8]));
            }
            {
                const mcc_vf value = mcc_vload(&x0[i0 * 40 + 32]);
                mcc_vstore(&y0[i0 * 40 + 32], (((value - mean) * scale) * mcc_vload(&e0[32])) + mcc_vload(&e1[32]));
            }
        }
    }
}

mcc_status net_run(const net_t *net)
{
    net_arena *const a = net->arena;
    const net_weights *const w = net->weights;

    /* @0 normalize */
    MCC_STEP(0, net_k0_normalize(a->x.v, w->s, w->b, a->y.v), a->y.v);

    return MCC_OK;
}

/* ---- root mean square over rows of 21 ---- */

/* gcc 12 takes members of the arena that begin at one address for the smallest of them: a false alarm where it inlines
 * a kernel that writes a larger one. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#endif

/* normalize axes=(1,) epsilon=1e-05 center=False, step @0 (normalize.vector): x0 f32[3,21] -> y0 f32[3,21]. y0 may
 * lie over x0, hence no restrict: what is overwritten there has been read. */
MCC_PLACE_CODE
static void net_k0_normalize(const float *x0, float *y0)
{
    MCC_WRITES();
    for (int32_t i0 = 0; i0 < 3; ++i0) {
        mcc_vf squares = { 0.0f };
        {
            mcc_vf part[2] = { { 0.0f } };
            MCC_UNROLL_FULLY
            for (int32_t j = 0; j < 2; ++j) {
                const mcc_vf value = mcc_vload(&x0[i0 * 21 + j * 8]);
                const mcc_vf d = value;
                part[j] += d * d;
            }
            {
                const mcc_vf value = mcc_vload_n(&x0[i0 * 21 + 16], 5);
                const mcc_vf d = value;
                part[0] += mcc_vfirst(5, d * d, mcc_vset(0.0f));
            }
            MCC_UNROLL_FULLY
            for (int32_t j = 0; j < 2; ++j) {
                squares += part[j];
            }
        }
        const mcc_vf scale = 1.0f / mcc_vsqrt(mcc_vset(mcc_vsum(squares)) / 21.0f + mcc_vset(1e-05f));
        {
            MCC_UNROLL_FULLY
            for (int32_t j = 0; j < 2; ++j) {
                const mcc_vf value = mcc_vload(&x0[i0 * 21 + j * 8]);
                mcc_vstore(&y0[i0 * 21 + j * 8], value * scale);
            }
            {
                const mcc_vf value = mcc_vload_n(&x0[i0 * 21 + 16], 5);
                mcc_vstore_n(&y0[i0 * 21 + 16], value * scale, 5);
            }
        }
    }
}

mcc_status net_run(const net_t *net)
{
    net_arena *const a = net->arena;

    /* @0 normalize */
    MCC_STEP(0, net_k0_normalize(a->x.v, a->y.v), a->y.v);

    return MCC_OK;
}
