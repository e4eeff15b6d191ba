/* Written by `make golden`; do not edit. */

/* ---- planes with whole vectors and a rest ---- */

/* gcc 12 takes members of the arena that begin at one address for the smallest of them: a false alarm where it inlines
 * a kernel that writes a larger one. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#endif

/* conv, step @0 (conv.pointwise): x0 f32[1,3,5,9], x1 weights f32[1,2,3,1,1,4], e0 bias f32[8,1,1] -> y0
 * f32[1,8,5,9] = relu((acc + e0)). */
MCC_PLACE_CODE
static MCC_NOINLINE void net_k0_conv_4x24(const float *MCC_RESTRICT x0, const float *MCC_RESTRICT x1,
    const float *MCC_RESTRICT e0, float *MCC_RESTRICT y0, int32_t m, int32_t n)
{
    MCC_WRITES();
    const float *in = &x0[n];
    const float *w = &x1[m * 3];
    mcc_vf acc[4][3] = { { { 0.0f } } };

    for (int32_t c = 0; c < 3; ++c) {
        MCC_BARRIER();
        const mcc_vf v0 = mcc_vload(in);
        const mcc_vf v1 = mcc_vload(in + 8);
        const mcc_vf v2 = mcc_vload(in + 16);
        MCC_UNROLL_FULLY
        for (int32_t r = 0; r < 4; ++r) {
            const mcc_vf s = mcc_vset(w[r]);
            acc[r][0] = mcc_vfma(s, v0, acc[r][0]);
            acc[r][1] = mcc_vfma(s, v1, acc[r][1]);
            acc[r][2] = mcc_vfma(s, v2, acc[r][2]);
        }
        in += 45;
        w += 4;
    }

    MCC_UNROLL_FULLY
    for (int32_t r = 0; r < 4; ++r) {
        MCC_UNROLL_FULLY
        for (int32_t j = 0; j < 3; ++j) {
            mcc_vstore(&y0[(m + r) * 45 + n + j * 8], mcc_vrelu((acc[r][j] + mcc_vset(e0[m + r]))));
        }
    }
}

MCC_PLACE_CODE
static MCC_NOINLINE void net_k0_conv_4x21(const float *MCC_RESTRICT x0, const float *MCC_RESTRICT x1,
    const float *MCC_RESTRICT e0, float *MCC_RESTRICT y0, int32_t m, int32_t n)
{
    MCC_WRITES();
    const float *in = &x0[n];
    const float *w = &x1[m * 3];
    mcc_vf acc[4][3] = { { { 0.0f } } };

    for (int32_t c = 0; c < 3; ++c) {
        MCC_BARRIER();
        const mcc_vf v0 = mcc_vload(in);
        const mcc_vf v1 = mcc_vload(in + 8);
        const mcc_vf v2 = mcc_vload_n(in + 16, 5);
        MCC_UNROLL_FULLY
        for (int32_t r = 0; r < 4; ++r) {
            const mcc_vf s = mcc_vset(w[r]);
            acc[r][0] = mcc_vfma(s, v0, acc[r][0]);
            acc[r][1] = mcc_vfma(s, v1, acc[r][1]);
            acc[r][2] = mcc_vfma(s, v2, acc[r][2]);
        }
        in += 45;
        w += 4;
    }

    MCC_UNROLL_FULLY
    for (int32_t r = 0; r < 4; ++r) {
        MCC_UNROLL_FULLY
        for (int32_t j = 0; j < 2; ++j) {
            mcc_vstore(&y0[(m + r) * 45 + n + j * 8], mcc_vrelu((acc[r][j] + mcc_vset(e0[m + r]))));
        }
        mcc_vstore_n(&y0[(m + r) * 45 + n + 16], mcc_vrelu((acc[r][2] + mcc_vset(e0[m + r]))), 5);
    }
}

MCC_PLACE_CODE
static void net_k0_conv(const float *MCC_RESTRICT x0, const float *MCC_RESTRICT x1, const float *MCC_RESTRICT e0,
    float *MCC_RESTRICT y0)
{
    MCC_WRITES();
    {
        const int32_t n = 0;
        for (int32_t m = 0; m < 8; m += 4) {
            net_k0_conv_4x24(x0, x1, e0, y0, m, n);
        }
    }
    {
        const int32_t n = 24;
        for (int32_t m = 0; m < 8; m += 4) {
            net_k0_conv_4x21(x0, x1, e0, y0, m, n);
        }
    }
}

mcc_status net_run(const net_t *net)
{
    net_arena *const a = net->arena;
    const net_weights *const w = net->weights;

    /* @0 conv */
    MCC_STEP(0, net_k0_conv(a->x.v, w->w_packedchannels, w->b, a->y.v), a->y.v);

    return MCC_OK;
}
