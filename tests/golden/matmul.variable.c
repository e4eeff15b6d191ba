/* Written by `make golden`; do not edit. */

/* ---- both operands are values ---- */

/* gcc 12 takes members of the arena that begin at one address for the smallest of them: a false alarm where it inlines
 * a kernel that writes a larger one. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#endif

/* matmul, step @0 (matmul.variable): x0 f32[4,9], x1 f32[9,18] -> y0 f32[4,18] = min(max(acc, -0.5), 0.75). */
MCC_PLACE_CODE
static MCC_NOINLINE void net_k0_matmul_4x18(const float *MCC_RESTRICT x0, const float *MCC_RESTRICT x1,
    float *MCC_RESTRICT y0, int32_t m, int32_t n)
{
    MCC_WRITES();
    const float *a = &x0[m * 9];
    const float *w = &x1[n];
    mcc_vf acc[4][3] = { { { 0.0f } } };

    MCC_UNROLL
    for (int32_t i = 0; i < 9; ++i) {
        MCC_BARRIER();
        const mcc_vf w0 = mcc_vload(w);
        const mcc_vf w1 = mcc_vload(w + 8);
        const mcc_vf w2 = mcc_vload_n(w + 16, 2);

        MCC_UNROLL_FULLY
        for (int32_t r = 0; r < 4; ++r) {
            const mcc_vf s = mcc_vset(a[r * 9]);
            acc[r][0] = mcc_vfma(s, w0, acc[r][0]);
            acc[r][1] = mcc_vfma(s, w1, acc[r][1]);
            acc[r][2] = mcc_vfma(s, w2, acc[r][2]);
        }

        a += 1;
        w += 18;
    }

    MCC_UNROLL_FULLY
    for (int32_t r = 0; r < 4; ++r) {
        MCC_UNROLL_FULLY
        for (int32_t j = 0; j < 2; ++j) {
            mcc_vstore(&y0[(m + r) * 18 + n + j * 8], mcc_vmin(mcc_vmax(acc[r][j], mcc_vset(-0.5f)), mcc_vset(0.75f)));
        }
        mcc_vstore_n(&y0[(m + r) * 18 + n + 16], mcc_vmin(mcc_vmax(acc[r][2], mcc_vset(-0.5f)), mcc_vset(0.75f)), 2);
    }
}

MCC_PLACE_CODE
static void net_k0_matmul(const float *MCC_RESTRICT x0, const float *MCC_RESTRICT x1, float *MCC_RESTRICT y0)
{
    MCC_WRITES();
    {
        const int32_t m = 0;
        {
            const int32_t n = 0;
            net_k0_matmul_4x18(x0, x1, y0, m, n);
        }
    }
}

mcc_status net_run(const net_t *net)
{
    net_arena *const a = net->arena;

    /* @0 matmul */
    MCC_STEP(0, net_k0_matmul(a->x.v, a->z.v, a->y.v), a->y.v);

    return MCC_OK;
}
