/* Written by `make golden`; do not edit. */

/* ---- 1x1 ---- */

/* gcc 12 takes members of the arena that begin at one address for the smallest of them: a false alarm where it inlines
 * a kernel that writes a larger one. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#endif

/* conv 1x1, step @0 (conv.channels): x0 f32[1,12,4,5] nhwc, x1 weights f32[288], e0 bias f32[24,1,1] -> y0
 * f32[1,24,4,5] nhwc = relu((acc + e0)). */
MCC_PLACE_CODE
static MCC_NOINLINE void net_k0_conv_0x24(const float *MCC_RESTRICT x0, const float *MCC_RESTRICT x1,
    const float *MCC_RESTRICT e0, float *MCC_RESTRICT y0, int32_t n, int32_t oh, int32_t ow)
{
    MCC_WRITES();
    mcc_vf acc[4][3] = { { { 0.0f } } };

    const int32_t top = oh;
    const int32_t in = top * 12 + ow * 60;
    const float *packed = &x1[n * 12];
    {
        const float *a = &x0[in];
        const float *w = packed;
        MCC_UNROLL
        for (int32_t i = 0; i < 12; ++i) {
            MCC_BARRIER();
            const mcc_vf w0 = mcc_vload(w);
            const mcc_vf w1 = mcc_vload(w + 8);
            const mcc_vf w2 = mcc_vload(w + 16);

            MCC_UNROLL_FULLY
            for (int32_t r = 0; r < 4; ++r) {
                const mcc_vf s = mcc_vset(a[r * 60]);
                acc[r][0] = mcc_vfma(s, w0, acc[r][0]);
                acc[r][1] = mcc_vfma(s, w1, acc[r][1]);
                acc[r][2] = mcc_vfma(s, w2, acc[r][2]);
            }

            a += 1;
            w += 24;
        }
    }
    MCC_UNROLL_FULLY
    for (int32_t r = 0; r < 4; ++r) {
        MCC_UNROLL_FULLY
        for (int32_t j = 0; j < 3; ++j) {
            mcc_vstore(&y0[oh * 24 + (ow + r) * 120 + n + j * 8], mcc_vrelu((acc[r][j] + mcc_vload(&e0[n + j * 8]))));
        }
    }
}

MCC_PLACE_CODE
static void net_k0_conv(const float *MCC_RESTRICT x0, const float *MCC_RESTRICT x1, const float *MCC_RESTRICT e0,
    float *MCC_RESTRICT y0)
{
    MCC_WRITES();
    {
        const int32_t n = 0;
        for (int32_t oh = 0; oh < 5; ++oh) {
            {
                const int32_t ow = 0;
                net_k0_conv_0x24(x0, x1, e0, y0, n, oh, ow);
            }
        }
    }
}

mcc_status net_run(const net_t *net)
{
    net_arena *const a = net->arena;
    const net_weights *const w = net->weights;

    /* @0 conv */
    MCC_STEP(0, net_k0_conv(a->x.v, w->w_packedtaps, w->b, a->y.v), a->y.v);

    return MCC_OK;
}

/* ---- 3x3 with padding: strips of pixels by the taps inside ---- */

/* gcc 12 takes members of the arena that begin at one address for the smallest of them: a false alarm where it inlines
 * a kernel that writes a larger one. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#endif

/* conv 3x3 p1, step @0 (conv.channels): x0 f32[1,3,6,7] nhwc, x1 weights f32[648] -> y0 f32[1,17,6,7] nhwc. */
MCC_PLACE_CODE
static MCC_NOINLINE void net_k0_conv_0x17(const float *MCC_RESTRICT x0, const float *MCC_RESTRICT x1,
    float *MCC_RESTRICT y0, int32_t n, int32_t oh, int32_t ow)
{
    MCC_WRITES();
    mcc_vf acc[4][3] = { { { 0.0f } } };

    const int32_t top = oh - 1;
    const int32_t in = top * 21 + (ow - 1) * 3;
    const float *packed = &x1[n * 27];
    const int32_t above = mcc_taps_before(top, 1);
    const int32_t below = mcc_taps_until(6 - top, 1, 3);
    for (int32_t kh = above; kh < below; ++kh) {
        {
            const float *a = &x0[in + kh * 21 + 3];
            const float *w = packed + (kh * 3) * 72;
            MCC_UNROLL_FULLY
            for (int32_t i = 0; i < 3; ++i) {
                MCC_FENCE();
                const mcc_vf w0 = mcc_vload(w);
                const mcc_vf w1 = mcc_vload(w + 8);
                const mcc_vf w2 = mcc_vload(w + 16);

                MCC_UNROLL_FULLY
                for (int32_t r = 1; r < 4; ++r) {
                    const mcc_vf s = mcc_vset(a[(r - 1) * 3]);
                    acc[r][0] = mcc_vfma(s, w0, acc[r][0]);
                    acc[r][1] = mcc_vfma(s, w1, acc[r][1]);
                    acc[r][2] = mcc_vfma(s, w2, acc[r][2]);
                }

                a += 1;
                w += 24;
            }
        }
        MCC_UNROLL_FULLY
        for (int32_t kw = 1; kw < 3; ++kw) {
            const float *a = &x0[in + kh * 21 + kw * 3];
            const float *w = packed + (kh * 3 + kw) * 72;
            MCC_UNROLL_FULLY
            for (int32_t i = 0; i < 3; ++i) {
                MCC_FENCE();
                const mcc_vf w0 = mcc_vload(w);
                const mcc_vf w1 = mcc_vload(w + 8);
                const mcc_vf w2 = mcc_vload(w + 16);

                MCC_UNROLL_FULLY
                for (int32_t r = 0; r < 4; ++r) {
                    const mcc_vf s = mcc_vset(a[r * 3]);
                    acc[r][0] = mcc_vfma(s, w0, acc[r][0]);
                    acc[r][1] = mcc_vfma(s, w1, acc[r][1]);
                    acc[r][2] = mcc_vfma(s, w2, acc[r][2]);
                }

                a += 1;
                w += 24;
            }
        }
    }
    MCC_UNROLL_FULLY
    for (int32_t r = 0; r < 4; ++r) {
        MCC_UNROLL_FULLY
        for (int32_t j = 0; j < 2; ++j) {
            mcc_vstore(&y0[oh * 119 + (ow + r) * 17 + n + j * 8], acc[r][j]);
        }
        mcc_vstore_n(&y0[oh * 119 + (ow + r) * 17 + n + 16], acc[r][2], 1);
    }
}

MCC_PLACE_CODE
static MCC_NOINLINE void net_k0_conv_4x17(const float *MCC_RESTRICT x0, const float *MCC_RESTRICT x1,
    float *MCC_RESTRICT y0, int32_t n, int32_t oh, int32_t ow)
{
    MCC_WRITES();
    mcc_vf acc[3][3] = { { { 0.0f } } };

    const int32_t top = oh - 1;
    const int32_t in = top * 21 + (ow - 1) * 3;
    const float *packed = &x1[n * 27];
    const int32_t above = mcc_taps_before(top, 1);
    const int32_t below = mcc_taps_until(6 - top, 1, 3);
    for (int32_t kh = above; kh < below; ++kh) {
        MCC_UNROLL_FULLY
        for (int32_t kw = 0; kw < 2; ++kw) {
            const float *a = &x0[in + kh * 21 + kw * 3];
            const float *w = packed + (kh * 3 + kw) * 72;
            MCC_UNROLL_FULLY
            for (int32_t i = 0; i < 3; ++i) {
                MCC_FENCE();
                const mcc_vf w0 = mcc_vload(w);
                const mcc_vf w1 = mcc_vload(w + 8);
                const mcc_vf w2 = mcc_vload(w + 16);

                MCC_UNROLL_FULLY
                for (int32_t r = 0; r < 3; ++r) {
                    const mcc_vf s = mcc_vset(a[r * 3]);
                    acc[r][0] = mcc_vfma(s, w0, acc[r][0]);
                    acc[r][1] = mcc_vfma(s, w1, acc[r][1]);
                    acc[r][2] = mcc_vfma(s, w2, acc[r][2]);
                }

                a += 1;
                w += 24;
            }
        }
        {
            const float *a = &x0[in + kh * 21 + 6];
            const float *w = packed + (kh * 3 + 2) * 72;
            MCC_UNROLL_FULLY
            for (int32_t i = 0; i < 3; ++i) {
                MCC_FENCE();
                const mcc_vf w0 = mcc_vload(w);
                const mcc_vf w1 = mcc_vload(w + 8);
                const mcc_vf w2 = mcc_vload(w + 16);

                MCC_UNROLL_FULLY
                for (int32_t r = 0; r < 2; ++r) {
                    const mcc_vf s = mcc_vset(a[r * 3]);
                    acc[r][0] = mcc_vfma(s, w0, acc[r][0]);
                    acc[r][1] = mcc_vfma(s, w1, acc[r][1]);
                    acc[r][2] = mcc_vfma(s, w2, acc[r][2]);
                }

                a += 1;
                w += 24;
            }
        }
    }
    MCC_UNROLL_FULLY
    for (int32_t r = 0; r < 3; ++r) {
        MCC_UNROLL_FULLY
        for (int32_t j = 0; j < 2; ++j) {
            mcc_vstore(&y0[oh * 119 + (ow + r) * 17 + n + j * 8], acc[r][j]);
        }
        mcc_vstore_n(&y0[oh * 119 + (ow + r) * 17 + n + 16], acc[r][2], 1);
    }
}

MCC_PLACE_CODE
static void net_k0_conv(const float *MCC_RESTRICT x0, const float *MCC_RESTRICT x1, float *MCC_RESTRICT y0)
{
    MCC_WRITES();
    {
        const int32_t n = 0;
        for (int32_t oh = 0; oh < 6; ++oh) {
            {
                const int32_t ow = 0;
                net_k0_conv_0x17(x0, x1, y0, n, oh, ow);
            }
            {
                const int32_t ow = 4;
                net_k0_conv_4x17(x0, x1, y0, n, oh, ow);
            }
        }
    }
}

mcc_status net_run(const net_t *net)
{
    net_arena *const a = net->arena;
    const net_weights *const w = net->weights;

    /* @0 conv */
    MCC_STEP(0, net_k0_conv(a->x.v, w->w_packedtaps, a->y.v), a->y.v);

    return MCC_OK;
}
