/* Written by `make golden`; do not edit. */

/* ---- one row: the weights are read once ---- */

/* matmul.packed: steps @0 */
static MCC_NOINLINE void net_k0_matmul_1x24(const float *MCC_RESTRICT x0, const float *MCC_RESTRICT x1, const float *MCC_RESTRICT e0, float *MCC_RESTRICT y0, int32_t n)
{
    const float *a = &x0[0];
    const float *w = &x1[n * 40];
    mcc_vf acc[1][3] = { { { 0.0f } } };

    MCC_UNROLL
    for (int32_t i = 0; i < 40; ++i) {
        MCC_BARRIER();
        const mcc_vf w0 = mcc_vload(w);
        const mcc_vf w1 = mcc_vload(w + 8);
        const mcc_vf w2 = mcc_vload(w + 16);
        const mcc_vf s = mcc_vset(a[0]);
        acc[0][0] = mcc_vfma(s, w0, acc[0][0]);
        acc[0][1] = mcc_vfma(s, w1, acc[0][1]);
        acc[0][2] = mcc_vfma(s, w2, acc[0][2]);

        a += 1;
        w += 24;
    }

    mcc_vstore(&y0[n], mcc_vrelu((acc[0][0] + mcc_vload(&e0[n]))));
    mcc_vstore(&y0[n + 8], mcc_vrelu((acc[0][1] + mcc_vload(&e0[n + 8]))));
    mcc_vstore(&y0[n + 16], mcc_vrelu((acc[0][2] + mcc_vload(&e0[n + 16]))));
}

static void net_k0_matmul(const float *MCC_RESTRICT x0, const float *MCC_RESTRICT x1, const float *MCC_RESTRICT e0, float *MCC_RESTRICT y0)
{
    for (int32_t n = 0; n < 24; n += 24) {
        for (int32_t m = 0; m < 1; m += 1) {
            net_k0_matmul_1x24(x0, x1, e0, y0, n);
        }
    }
}

mcc_status net_run(const net_t *net)
{
    net_arena *const a = net->arena;
    const net_weights *const w = net->weights;

    /* @0 matmul */
    MCC_PROFILE_BEGIN(0);
    net_k0_matmul(a->x.v, w->w_packedcolumns, w->b, a->y.v);
    MCC_PROFILE_END(0);
    MCC_TRACE(0, a->y.v, sizeof(a->y.v));

    return MCC_OK;
}

/* ---- tiles of rows and columns, rests of both ---- */

/* matmul.packed: steps @0 */
static MCC_NOINLINE void net_k0_matmul_4x21(const float *MCC_RESTRICT x0, const float *MCC_RESTRICT x1, float *MCC_RESTRICT y0, int32_t m, int32_t n)
{
    const float *a = &x0[m * 16];
    const float *w = &x1[n * 16];
    mcc_vf acc[4][3] = { { { 0.0f } } };

    MCC_UNROLL
    for (int32_t i = 0; i < 16; ++i) {
        MCC_BARRIER();
        const mcc_vf w0 = mcc_vload(w);
        const mcc_vf w1 = mcc_vload(w + 8);
        const mcc_vf w2 = mcc_vload(w + 16);
        MCC_UNROLL_FULLY
        for (int32_t r = 0; r < 4; ++r) {
            const mcc_vf s = mcc_vset(a[r * 16]);
            acc[r][0] = mcc_vfma(s, w0, acc[r][0]);
            acc[r][1] = mcc_vfma(s, w1, acc[r][1]);
            acc[r][2] = mcc_vfma(s, w2, acc[r][2]);
        }

        a += 1;
        w += 24;
    }

    MCC_UNROLL_FULLY
    for (int32_t r = 0; r < 4; ++r) {
        mcc_vstore(&y0[(m + r) * 21 + n], acc[r][0]);
        mcc_vstore(&y0[(m + r) * 21 + n + 8], acc[r][1]);
        mcc_vstore_n(&y0[(m + r) * 21 + n + 16], acc[r][2], 5);
    }
}

static MCC_NOINLINE void net_k0_matmul_3x21(const float *MCC_RESTRICT x0, const float *MCC_RESTRICT x1, float *MCC_RESTRICT y0, int32_t m, int32_t n)
{
    const float *a = &x0[m * 16];
    const float *w = &x1[n * 16];
    mcc_vf acc[3][3] = { { { 0.0f } } };

    MCC_UNROLL
    for (int32_t i = 0; i < 16; ++i) {
        MCC_BARRIER();
        const mcc_vf w0 = mcc_vload(w);
        const mcc_vf w1 = mcc_vload(w + 8);
        const mcc_vf w2 = mcc_vload(w + 16);
        MCC_UNROLL_FULLY
        for (int32_t r = 0; r < 3; ++r) {
            const mcc_vf s = mcc_vset(a[r * 16]);
            acc[r][0] = mcc_vfma(s, w0, acc[r][0]);
            acc[r][1] = mcc_vfma(s, w1, acc[r][1]);
            acc[r][2] = mcc_vfma(s, w2, acc[r][2]);
        }

        a += 1;
        w += 24;
    }

    MCC_UNROLL_FULLY
    for (int32_t r = 0; r < 3; ++r) {
        mcc_vstore(&y0[(m + r) * 21 + n], acc[r][0]);
        mcc_vstore(&y0[(m + r) * 21 + n + 8], acc[r][1]);
        mcc_vstore_n(&y0[(m + r) * 21 + n + 16], acc[r][2], 5);
    }
}

static void net_k0_matmul(const float *MCC_RESTRICT x0, const float *MCC_RESTRICT x1, float *MCC_RESTRICT y0)
{
    for (int32_t n = 0; n < 21; n += 21) {
        for (int32_t m = 0; m < 4; m += 4) {
            net_k0_matmul_4x21(x0, x1, y0, m, n);
        }
        for (int32_t m = 4; m < 7; m += 3) {
            net_k0_matmul_3x21(x0, x1, y0, m, n);
        }
    }
}

mcc_status net_run(const net_t *net)
{
    net_arena *const a = net->arena;
    const net_weights *const w = net->weights;

    /* @0 matmul */
    MCC_PROFILE_BEGIN(0);
    net_k0_matmul(a->x.v, w->w_packedcolumns, a->y.v);
    MCC_PROFILE_END(0);
    MCC_TRACE(0, a->y.v, sizeof(a->y.v));

    return MCC_OK;
}
