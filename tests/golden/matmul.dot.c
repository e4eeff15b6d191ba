/* Written by `make golden`; do not edit. */

/* ---- a matrix by a column ---- */

/* gcc 12 takes members of the arena that begin at one address for the smallest of them: a false alarm where it inlines
 * a kernel that writes a larger one. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#endif

/* matmul, step @0 (matmul.dot): x0 f32[18,1], x1 f32[9,18] -> y0 f32[9,1]. */
MCC_PLACE_CODE
static MCC_NOINLINE void net_k0_matmul_1x4(const float *MCC_RESTRICT x0, const float *MCC_RESTRICT x1,
    float *MCC_RESTRICT y0, int32_t n)
{
    MCC_WRITES();
    const float *a = &x0[0];
    const float *w = &x1[n * 18];
    mcc_vf acc0_0 = { 0.0f };
    mcc_vf acc0_1 = { 0.0f };
    mcc_vf acc0_2 = { 0.0f };
    mcc_vf acc0_3 = { 0.0f };
    for (int32_t i = 0; i < 16; i += 8) {
        const mcc_vf w0 = mcc_vload(w + i);
        const mcc_vf w1 = mcc_vload(w + i + 18);
        const mcc_vf w2 = mcc_vload(w + i + 36);
        const mcc_vf w3 = mcc_vload(w + i + 54);
        {
            const mcc_vf s = mcc_vload(a + i);
            acc0_0 = mcc_vfma(s, w0, acc0_0);
            acc0_1 = mcc_vfma(s, w1, acc0_1);
            acc0_2 = mcc_vfma(s, w2, acc0_2);
            acc0_3 = mcc_vfma(s, w3, acc0_3);
        }
    }
    {
        const int32_t i = 16;
        const mcc_vf w0 = mcc_vload_n(w + i, 2);
        const mcc_vf w1 = mcc_vload_n(w + i + 18, 2);
        const mcc_vf w2 = mcc_vload_n(w + i + 36, 2);
        const mcc_vf w3 = mcc_vload_n(w + i + 54, 2);
        {
            const mcc_vf s = mcc_vload_n(a + i, 2);
            acc0_0 = mcc_vfma(s, w0, acc0_0);
            acc0_1 = mcc_vfma(s, w1, acc0_1);
            acc0_2 = mcc_vfma(s, w2, acc0_2);
            acc0_3 = mcc_vfma(s, w3, acc0_3);
        }
    }
    {
        y0[n] = mcc_vsum(acc0_0);
    }
    {
        y0[n + 1] = mcc_vsum(acc0_1);
    }
    {
        y0[n + 2] = mcc_vsum(acc0_2);
    }
    {
        y0[n + 3] = mcc_vsum(acc0_3);
    }
}

MCC_PLACE_CODE
static MCC_NOINLINE void net_k0_matmul_1x1(const float *MCC_RESTRICT x0, const float *MCC_RESTRICT x1,
    float *MCC_RESTRICT y0, int32_t n)
{
    MCC_WRITES();
    const float *a = &x0[0];
    const float *w = &x1[n * 18];
    mcc_vf acc0_0 = { 0.0f };
    for (int32_t i = 0; i < 16; i += 8) {
        const mcc_vf w0 = mcc_vload(w + i);
        {
            const mcc_vf s = mcc_vload(a + i);
            acc0_0 = mcc_vfma(s, w0, acc0_0);
        }
    }
    {
        const int32_t i = 16;
        const mcc_vf w0 = mcc_vload_n(w + i, 2);
        {
            const mcc_vf s = mcc_vload_n(a + i, 2);
            acc0_0 = mcc_vfma(s, w0, acc0_0);
        }
    }
    {
        y0[n] = mcc_vsum(acc0_0);
    }
}

MCC_PLACE_CODE
static void net_k0_matmul(const float *MCC_RESTRICT x0, const float *MCC_RESTRICT x1, float *MCC_RESTRICT y0)
{
    MCC_WRITES();
    for (int32_t n = 0; n < 8; n += 4) {
        net_k0_matmul_1x4(x0, x1, y0, n);
    }
    {
        const int32_t n = 8;
        net_k0_matmul_1x1(x0, x1, y0, n);
    }
}

mcc_status net_run(const net_t *net)
{
    net_arena *const a = net->arena;

    /* @0 matmul */
    MCC_STEP(0, net_k0_matmul(a->z.v, a->x.v, a->y.v), a->y.v);

    return MCC_OK;
}
