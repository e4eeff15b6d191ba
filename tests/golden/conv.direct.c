/* Written by `make golden`; do not edit. */

/* ---- 3x3 on a value with a halo, bias and activation ---- */

/* gcc 12 takes members of the arena that begin at one address for the smallest of them: a false alarm where it inlines
 * a kernel that writes a larger one. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#endif

/* fill, steps @0, @1 (fill.generic): y0 f32[2,20] = 0. */
MCC_PLACE_CODE
static void net_k0_fill(float *y0)
{
    MCC_WRITES();
    for (int32_t i0 = 0; i0 < 2; ++i0) {
        for (int32_t i1 = 0; i1 < 20; ++i1) {
            y0[i0 * 140 + i1] = 0.0f;
        }
    }
}

/* fill, steps @2, @3 (fill.generic): y0 f32[2,5] = 0. */
MCC_PLACE_CODE
static void net_k1_fill(float *y0)
{
    MCC_WRITES();
    for (int32_t i0 = 0; i0 < 2; ++i0) {
        for (int32_t i1 = 0; i1 < 5; ++i1) {
            y0[i0 * 140 + i1 * 20] = 0.0f;
        }
    }
}

/* map, step @4 (map.vector): x0 f32[1,2,5,18] -> y0 f32[1,2,5,18] = neg(x0). */
MCC_PLACE_CODE
static void net_k2_map(const float *MCC_RESTRICT x0, float *MCC_RESTRICT y0)
{
    MCC_WRITES();
    for (int32_t i0 = 0; i0 < 2; ++i0) {
        for (int32_t i1 = 0; i1 < 5; ++i1) {
            for (int32_t n = 0; n < 16; n += 8) {
                mcc_vstore(&y0[i0 * 140 + i1 * 20 + n], -mcc_vload(&x0[i0 * 90 + i1 * 18 + n]));
            }
            mcc_vstore_n(&y0[i0 * 140 + i1 * 20 + 16], -mcc_vload_n(&x0[i0 * 90 + i1 * 18 + 16], 2), 2);
        }
    }
}

/* conv 3x3 p1, step @5 (conv.direct): x0 f32[1,2,5,18], x1 weights f32[1,2,2,3,3,3], e0 bias f32[6,1,1] -> y0
 * f32[1,6,5,18] = relu((acc + e0)). */
MCC_PLACE_CODE
static MCC_NOINLINE void net_k3_conv_3x1x18(const float *MCC_RESTRICT x0, const float *MCC_RESTRICT x1,
    const float *MCC_RESTRICT e0, float *MCC_RESTRICT y0, int32_t m, int32_t oh, int32_t ow)
{
    MCC_WRITES();
    const float *in = &x0[(oh - 1) * 20 + ow - 1];
    const float *w = &x1[m * 18];
    mcc_vf acc[3][3] = { { { 0.0f } } };

    for (int32_t c = 0; c < 2; ++c) {
        for (int32_t kh = 0; kh < 3; ++kh) {
            const float *tap = in + kh * 20;
            for (int32_t kw = 0; kw < 3; ++kw) {
                MCC_BARRIER();
                const mcc_vf v0_0 = mcc_vload_once(tap);
                const mcc_vf v0_1 = mcc_vload_once(tap + 8);
                const mcc_vf v0_2 = mcc_vload_n(tap + 16, 2);
                MCC_UNROLL_FULLY
                for (int32_t r = 0; r < 3; ++r) {
                    const mcc_vf s = mcc_vset(w[r]);
                    acc[r][0] = mcc_vfma(s, v0_0, acc[r][0]);
                    acc[r][1] = mcc_vfma(s, v0_1, acc[r][1]);
                    acc[r][2] = mcc_vfma(s, v0_2, acc[r][2]);
                }
                tap += 1;
                w += 3;
            }
        }
        in += 140;
    }

    MCC_UNROLL_FULLY
    for (int32_t r = 0; r < 3; ++r) {
        MCC_UNROLL_FULLY
        for (int32_t j = 0; j < 2; ++j) {
            mcc_vstore(&y0[(m + r) * 90 + oh * 18 + ow + j * 8], mcc_vrelu((acc[r][j] + mcc_vset(e0[m + r]))));
        }
        mcc_vstore_n(&y0[(m + r) * 90 + oh * 18 + ow + 16], mcc_vrelu((acc[r][2] + mcc_vset(e0[m + r]))), 2);
    }
}

MCC_PLACE_CODE
static void net_k3_conv(const float *MCC_RESTRICT x0, const float *MCC_RESTRICT x1, const float *MCC_RESTRICT e0,
    float *MCC_RESTRICT y0)
{
    MCC_WRITES();
    for (int32_t oh = 0; oh < 5; oh += 1) {
        {
            const int32_t ow = 0;
            for (int32_t m = 0; m < 6; m += 3) {
                net_k3_conv_3x1x18(x0, x1, e0, y0, m, oh, ow);
            }
        }
    }
}

mcc_status net_run(const net_t *net)
{
    net_arena *const a = net->arena;
    const net_weights *const w = net->weights;

    /* @0 fill a */
    MCC_STEP(0, net_k0_fill(a->a.v), a->a.v);

    /* @1 fill a */
    MCC_STEP(1, net_k0_fill(a->a.v + 120), a->a.v);

    /* @2 fill a */
    MCC_STEP(2, net_k1_fill(a->a.v + 20), a->a.v);

    /* @3 fill a */
    MCC_STEP(3, net_k1_fill(a->a.v + 39), a->a.v);

    /* @4 map */
    MCC_STEP(4, net_k2_map(a->x.v, a->a.v + 21), a->a.v);

    /* @5 conv */
    MCC_STEP(5, net_k3_conv(a->a.v + 21, w->w_packedchannels, w->b, a->y.v), a->y.v);

    return MCC_OK;
}

/* ---- stride 2 ---- */

/* gcc 12 takes members of the arena that begin at one address for the smallest of them: a false alarm where it inlines
 * a kernel that writes a larger one. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#endif

/* fill, steps @0, @1 (fill.generic): y0 f32[2,33] = 0. */
MCC_PLACE_CODE
static void net_k0_fill(float *y0)
{
    MCC_WRITES();
    for (int32_t i0 = 0; i0 < 2; ++i0) {
        for (int32_t i1 = 0; i1 < 33; ++i1) {
            y0[i0 * 297 + i1] = 0.0f;
        }
    }
}

/* fill, steps @2, @3 (fill.generic): y0 f32[2,7] = 0. */
MCC_PLACE_CODE
static void net_k1_fill(float *y0)
{
    MCC_WRITES();
    for (int32_t i0 = 0; i0 < 2; ++i0) {
        for (int32_t i1 = 0; i1 < 7; ++i1) {
            y0[i0 * 297 + i1 * 33] = 0.0f;
        }
    }
}

/* map, step @4 (map.vector): x0 f32[1,2,7,31] -> y0 f32[1,2,7,31] = neg(x0). */
MCC_PLACE_CODE
static void net_k2_map(const float *MCC_RESTRICT x0, float *MCC_RESTRICT y0)
{
    MCC_WRITES();
    for (int32_t i0 = 0; i0 < 2; ++i0) {
        for (int32_t i1 = 0; i1 < 7; ++i1) {
            for (int32_t n = 0; n < 24; n += 8) {
                mcc_vstore(&y0[i0 * 297 + i1 * 33 + n], -mcc_vload(&x0[i0 * 217 + i1 * 31 + n]));
            }
            mcc_vstore_n(&y0[i0 * 297 + i1 * 33 + 24], -mcc_vload_n(&x0[i0 * 217 + i1 * 31 + 24], 7), 7);
        }
    }
}

/* conv 3x3 s2 p1, step @5 (conv.direct): x0 f32[1,2,7,31], x1 weights f32[1,1,2,3,3,4] -> y0 f32[1,4,4,16]. */
MCC_PLACE_CODE
static MCC_NOINLINE void net_k3_conv_4x2x8(const float *MCC_RESTRICT x0, const float *MCC_RESTRICT x1,
    float *MCC_RESTRICT y0, int32_t m, int32_t oh, int32_t ow)
{
    MCC_WRITES();
    const float *in = &x0[(oh * 2 - 1) * 33 + ow * 2 - 1];
    const float *w = &x1[m * 18];
    mcc_vf acc[4][2] = { { { 0.0f } } };

    for (int32_t c = 0; c < 2; ++c) {
        for (int32_t kh = 0; kh < 3; ++kh) {
            const float *tap = in + kh * 33;
            for (int32_t kw = 0; kw < 3; ++kw) {
                MCC_BARRIER();
                const mcc_vf v0_0 = mcc_vload2(tap);
                const mcc_vf v1_0 = mcc_vload2(tap + 66);
                MCC_UNROLL_FULLY
                for (int32_t r = 0; r < 4; ++r) {
                    const mcc_vf s = mcc_vset(w[r]);
                    acc[r][0] = mcc_vfma(s, v0_0, acc[r][0]);
                    acc[r][1] = mcc_vfma(s, v1_0, acc[r][1]);
                }
                tap += 1;
                w += 4;
            }
        }
        in += 297;
    }

    MCC_UNROLL_FULLY
    for (int32_t r = 0; r < 4; ++r) {
        mcc_vstore(&y0[(m + r) * 64 + oh * 16 + ow], acc[r][0]);
        mcc_vstore(&y0[(m + r) * 64 + (oh + 1) * 16 + ow], acc[r][1]);
    }
}

MCC_PLACE_CODE
static void net_k3_conv(const float *MCC_RESTRICT x0, const float *MCC_RESTRICT x1, float *MCC_RESTRICT y0)
{
    MCC_WRITES();
    for (int32_t oh = 0; oh < 4; oh += 2) {
        for (int32_t ow = 0; ow < 16; ow += 8) {
            {
                const int32_t m = 0;
                net_k3_conv_4x2x8(x0, x1, y0, m, oh, ow);
            }
        }
    }
}

mcc_status net_run(const net_t *net)
{
    net_arena *const a = net->arena;
    const net_weights *const w = net->weights;

    /* @0 fill a */
    MCC_STEP(0, net_k0_fill(a->a.v), a->a.v);

    /* @1 fill a */
    MCC_STEP(1, net_k0_fill(a->a.v + 264), a->a.v);

    /* @2 fill a */
    MCC_STEP(2, net_k1_fill(a->a.v + 33), a->a.v);

    /* @3 fill a */
    MCC_STEP(3, net_k1_fill(a->a.v + 65), a->a.v);

    /* @4 map */
    MCC_STEP(4, net_k2_map(a->x.v, a->a.v + 34), a->a.v);

    /* @5 conv */
    MCC_STEP(5, net_k3_conv(a->a.v + 34, w->w_packedchannels, a->y.v), a->y.v);

    return MCC_OK;
}
