/* Written by `make golden`; do not edit. */

/* ---- 1x1 ---- */

/* conv.channels: steps @0 */
static MCC_NOINLINE void net_k0_conv_0x24(const float *MCC_RESTRICT x0, const float *MCC_RESTRICT x1, const float *MCC_RESTRICT e0, float *MCC_RESTRICT y0, int32_t b, int32_t g, int32_t n, int32_t oh, int32_t ow)
{
    mcc_vf acc[4][3] = { { { 0.0f } } };

    const int32_t top = oh - 0;
    const float *in = x0 + (b * 240 + g * 12 + top * 12
        + (ow - 0) * 60);
    const float *packed = &x1[(g * 24 + n) * 12];
    for (int32_t kh = 0; kh < 1; ++kh) {
        const float *a = in + kh * 12;
        const float *w = packed + kh * 288;
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
        mcc_vstore(&y0[oh * 24 + (ow + r) * 120 + g * 24 + n], mcc_vrelu((acc[r][0] + mcc_vload(&e0[g * 24 + n]))));
        mcc_vstore(&y0[oh * 24 + (ow + r) * 120 + g * 24 + n + 8], mcc_vrelu((acc[r][1] + mcc_vload(&e0[g * 24 + n + 8]))));
        mcc_vstore(&y0[oh * 24 + (ow + r) * 120 + g * 24 + n + 16], mcc_vrelu((acc[r][2] + mcc_vload(&e0[g * 24 + n + 16]))));
    }
}

static void net_k0_conv(const float *MCC_RESTRICT x0, const float *MCC_RESTRICT x1, const float *MCC_RESTRICT e0, float *MCC_RESTRICT y0)
{
    for (int32_t b = 0; b < 1; ++b) {
        for (int32_t first = 0; first < 5; first += 5) {
            for (int32_t g = 0; g < 1; ++g) {
                for (int32_t n = 0; n < 24; n += 24) {
                    for (int32_t oh = first; oh < first + 5; ++oh) {
                        for (int32_t ow = 0; ow < 4; ow += 4) {
                            net_k0_conv_0x24(x0, x1, e0, y0, b, g, n, oh, ow);
                        }
                    }
                }
            }
        }
    }
}

mcc_status net_run(const net_t *net)
{
    net_arena *const a = net->arena;
    const net_weights *const w = net->weights;

    /* @0 conv */
    MCC_PROFILE_BEGIN(0);
    net_k0_conv(a->x.v, w->w_packedtaps, w->b, a->y.v);
    MCC_PROFILE_END(0);
    MCC_TRACE(0, a->y.v, sizeof(a->y.v));

    return MCC_OK;
}

/* ---- 3x3 with padding: strips of pixels by the taps inside ---- */

/* conv.channels: steps @0 */
static MCC_NOINLINE void net_k0_conv_0x17(const float *MCC_RESTRICT x0, const float *MCC_RESTRICT x1, float *MCC_RESTRICT y0, int32_t b, int32_t g, int32_t n, int32_t oh, int32_t ow)
{
    mcc_vf acc[4][3] = { { { 0.0f } } };

    const int32_t top = oh - 1;
    const float *in = x0 + (b * 126 + g * 3 + top * 21
        + (ow - 1) * 3);
    const float *packed = &x1[(g * 24 + n) * 27];
    const int32_t above = (top < 0) ? -top : 0;
    const int32_t inside = 6 - top;
    const int32_t below = (inside < 3) ? inside : 3;
    for (int32_t kh = above; kh < below; ++kh) {
        {
            const float *a = in + kh * 21;
            const float *w = packed + (kh * 3) * 72;
            MCC_UNROLL_FULLY
            for (int32_t i = 0; i < 3; ++i) {
                MCC_FENCE();
                const mcc_vf w0 = mcc_vload(w);
                const mcc_vf w1 = mcc_vload(w + 8);
                const mcc_vf w2 = mcc_vload(w + 16);
                MCC_UNROLL_FULLY
                for (int32_t r = 1; r < 4; ++r) {
                    const mcc_vf s = mcc_vset(a[r * 3]);
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
            const float *a = in + kh * 21 + kw * 3;
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
        mcc_vstore(&y0[oh * 119 + (ow + r) * 17 + g * 17 + n], acc[r][0]);
        mcc_vstore(&y0[oh * 119 + (ow + r) * 17 + g * 17 + n + 8], acc[r][1]);
        mcc_vstore_n(&y0[oh * 119 + (ow + r) * 17 + g * 17 + n + 16], acc[r][2], 1);
    }
}

static MCC_NOINLINE void net_k0_conv_4x17(const float *MCC_RESTRICT x0, const float *MCC_RESTRICT x1, float *MCC_RESTRICT y0, int32_t b, int32_t g, int32_t n, int32_t oh, int32_t ow)
{
    mcc_vf acc[3][3] = { { { 0.0f } } };

    const int32_t top = oh - 1;
    const float *in = x0 + (b * 126 + g * 3 + top * 21
        + (ow - 1) * 3);
    const float *packed = &x1[(g * 24 + n) * 27];
    const int32_t above = (top < 0) ? -top : 0;
    const int32_t inside = 6 - top;
    const int32_t below = (inside < 3) ? inside : 3;
    for (int32_t kh = above; kh < below; ++kh) {
        MCC_UNROLL_FULLY
        for (int32_t kw = 0; kw < 2; ++kw) {
            const float *a = in + kh * 21 + kw * 3;
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
            const float *a = in + kh * 21 + 6;
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
        mcc_vstore(&y0[oh * 119 + (ow + r) * 17 + g * 17 + n], acc[r][0]);
        mcc_vstore(&y0[oh * 119 + (ow + r) * 17 + g * 17 + n + 8], acc[r][1]);
        mcc_vstore_n(&y0[oh * 119 + (ow + r) * 17 + g * 17 + n + 16], acc[r][2], 1);
    }
}

static void net_k0_conv(const float *MCC_RESTRICT x0, const float *MCC_RESTRICT x1, float *MCC_RESTRICT y0)
{
    for (int32_t b = 0; b < 1; ++b) {
        for (int32_t first = 0; first < 6; first += 6) {
            for (int32_t g = 0; g < 1; ++g) {
                for (int32_t n = 0; n < 17; n += 17) {
                    for (int32_t oh = first; oh < first + 6; ++oh) {
                        for (int32_t ow = 0; ow < 4; ow += 4) {
                            net_k0_conv_0x17(x0, x1, y0, b, g, n, oh, ow);
                        }
                        for (int32_t ow = 4; ow < 7; ow += 3) {
                            net_k0_conv_4x17(x0, x1, y0, b, g, n, oh, ow);
                        }
                    }
                }
            }
        }
    }
}

mcc_status net_run(const net_t *net)
{
    net_arena *const a = net->arena;
    const net_weights *const w = net->weights;

    /* @0 conv */
    MCC_PROFILE_BEGIN(0);
    net_k0_conv(a->x.v, w->w_packedtaps, a->y.v);
    MCC_PROFILE_END(0);
    MCC_TRACE(0, a->y.v, sizeof(a->y.v));

    return MCC_OK;
}
