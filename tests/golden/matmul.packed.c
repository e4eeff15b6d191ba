/* Written by `make golden`; do not edit. */

/* ---- one row: the weights are read once ---- */

/* gcc 12 takes members of the arena that begin at one address for the smallest of them: a false alarm where it inlines
 * a kernel that writes a larger one. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#endif

/* matmul, step @0 (matmul.packed): x0 f32[1,40], x1 weights f32[960], e0 bias f32[24] -> y0 f32[1,24] = relu((acc +
 * e0)). */
MCC_PLACE_CODE
static MCC_NOINLINE void net_k0_matmul_1x24(const float *MCC_RESTRICT x0, const float *MCC_RESTRICT x1,
    const float *MCC_RESTRICT e0, float *MCC_RESTRICT y0, int32_t n)
{
    MCC_WRITES();
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

    MCC_UNROLL_FULLY
    for (int32_t j = 0; j < 3; ++j) {
        mcc_vstore(&y0[n + j * 8], mcc_vrelu((acc[0][j] + mcc_vload(&e0[n + j * 8]))));
    }
}

MCC_PLACE_CODE
static void net_k0_matmul(const float *MCC_RESTRICT x0, const float *MCC_RESTRICT x1, const float *MCC_RESTRICT e0,
    float *MCC_RESTRICT y0)
{
    MCC_WRITES();
    {
        const int32_t n = 0;
        net_k0_matmul_1x24(x0, x1, e0, y0, n);
    }
}

mcc_status net_run(const net_t *net)
{
    net_arena *const a = net->arena;
    const net_weights *const w = net->weights;

    /* @0 matmul */
    MCC_STEP(0, net_k0_matmul(a->x.v, w->w_packedcolumns, w->b, a->y.v), a->y.v);

    return MCC_OK;
}

/* ---- tiles of rows and columns, rests of both ---- */

/* gcc 12 takes members of the arena that begin at one address for the smallest of them: a false alarm where it inlines
 * a kernel that writes a larger one. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#endif

/* matmul, step @0 (matmul.packed): x0 f32[7,16], x1 weights f32[384] -> y0 f32[7,21]. */
MCC_PLACE_CODE
static MCC_NOINLINE void net_k0_matmul_4x21(const float *MCC_RESTRICT x0, const float *MCC_RESTRICT x1,
    float *MCC_RESTRICT y0, int32_t m, int32_t n)
{
    MCC_WRITES();
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
        MCC_UNROLL_FULLY
        for (int32_t j = 0; j < 2; ++j) {
            mcc_vstore(&y0[(m + r) * 21 + n + j * 8], acc[r][j]);
        }
        mcc_vstore_n(&y0[(m + r) * 21 + n + 16], acc[r][2], 5);
    }
}

MCC_PLACE_CODE
static MCC_NOINLINE void net_k0_matmul_3x21(const float *MCC_RESTRICT x0, const float *MCC_RESTRICT x1,
    float *MCC_RESTRICT y0, int32_t m, int32_t n)
{
    MCC_WRITES();
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
        MCC_UNROLL_FULLY
        for (int32_t j = 0; j < 2; ++j) {
            mcc_vstore(&y0[(m + r) * 21 + n + j * 8], acc[r][j]);
        }
        mcc_vstore_n(&y0[(m + r) * 21 + n + 16], acc[r][2], 5);
    }
}

MCC_PLACE_CODE
static void net_k0_matmul(const float *MCC_RESTRICT x0, const float *MCC_RESTRICT x1, float *MCC_RESTRICT y0)
{
    MCC_WRITES();
    {
        const int32_t n = 0;
        {
            const int32_t m = 0;
            net_k0_matmul_4x21(x0, x1, y0, m, n);
        }
        {
            const int32_t m = 4;
            net_k0_matmul_3x21(x0, x1, y0, m, n);
        }
    }
}

mcc_status net_run(const net_t *net)
{
    net_arena *const a = net->arena;
    const net_weights *const w = net->weights;

    /* @0 matmul */
    MCC_STEP(0, net_k0_matmul(a->x.v, w->w_packedcolumns, a->y.v), a->y.v);

    return MCC_OK;
}
