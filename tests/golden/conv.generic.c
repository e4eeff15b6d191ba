/* Written by `make golden`; do not edit. */

/* ---- 3x3 with padding, bias and activation ---- */

/* gcc 12 takes members of the arena that begin at one address for the smallest of them: a false alarm where it inlines
 * a kernel that writes a larger one. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#endif

/* conv 3x3 p1, step @0 (conv.generic): x0 f32[1,3,9,8], x1 weights f32[4,3,3,3], e0 bias f32[4,1,1] -> y0
 * f32[1,4,9,8] = relu((acc + e0)). y0 may lie over x0, hence no restrict: what is overwritten there has been read. */
MCC_PLACE_CODE
static void net_k0_conv(const float *x0, const float *MCC_RESTRICT x1, const float *MCC_RESTRICT e0, float *y0)
{
    MCC_WRITES();
    for (int32_t m = 0; m < 4; ++m) {
        for (int32_t o0 = 0; o0 < 9; ++o0) {
            for (int32_t o1 = 0; o1 < 8; ++o1) {
                float acc = 0.0f;
                for (int32_t c = 0; c < 3; ++c) {
                    for (int32_t k0 = 0; k0 < 3; ++k0) {
                        const int32_t i0 = o0 + k0 - 1;
                        if ((i0 < 0) || (i0 >= 9)) {
                            continue;
                        }
                        for (int32_t k1 = 0; k1 < 3; ++k1) {
                            const int32_t i1 = o1 + k1 - 1;
                            if ((i1 < 0) || (i1 >= 8)) {
                                continue;
                            }
                            acc += x0[c * 72 + i0 * 8 + i1] * x1[m * 27 + c * 9 + k0 * 3 + k1];
                        }
                    }
                }
                y0[m * 72 + o0 * 8 + o1] = mcc_relu_f32(acc + e0[m]);
            }
        }
    }
}

mcc_status net_run(const net_t *net)
{
    net_arena *const a = net->arena;
    const net_weights *const w = net->weights;

    /* @0 conv */
    MCC_STEP(0, net_k0_conv(a->x.v, w->w, w->b, a->y.v), a->y.v);

    return MCC_OK;
}

/* ---- 1x1 ---- */

/* gcc 12 takes members of the arena that begin at one address for the smallest of them: a false alarm where it inlines
 * a kernel that writes a larger one. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#endif

/* conv 1x1, step @0 (conv.generic): x0 f32[1,6,5,5], x1 weights f32[4,6,1,1] -> y0 f32[1,4,5,5]. y0 may lie over x0,
 * hence no restrict: what is overwritten there has been read. */
MCC_PLACE_CODE
static void net_k0_conv(const float *x0, const float *MCC_RESTRICT x1, float *y0)
{
    MCC_WRITES();
    for (int32_t m = 0; m < 4; ++m) {
        for (int32_t o0 = 0; o0 < 5; ++o0) {
            for (int32_t o1 = 0; o1 < 5; ++o1) {
                float acc = 0.0f;
                for (int32_t c = 0; c < 6; ++c) {
                    acc += x0[c * 25 + o0 * 5 + o1] * x1[m * 6 + c];
                }
                y0[m * 25 + o0 * 5 + o1] = acc;
            }
        }
    }
}

mcc_status net_run(const net_t *net)
{
    net_arena *const a = net->arena;
    const net_weights *const w = net->weights;

    /* @0 conv */
    MCC_STEP(0, net_k0_conv(a->x.v, w->w, a->y.v), a->y.v);

    return MCC_OK;
}

/* ---- depthwise, stride 2, channels-last ---- */

/* gcc 12 takes members of the arena that begin at one address for the smallest of them: a false alarm where it inlines
 * a kernel that writes a larger one. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#endif

/* conv 3x3 s2 p0x0x1x1 g6, step @0 (conv.generic): x0 f32[1,6,9,9] nhwc, x1 weights f32[6,1,3,3] -> y0 f32[1,6,4,4]
 * nhwc. y0 may lie over x0, hence no restrict: what is overwritten there has been read. */
MCC_PLACE_CODE
static void net_k0_conv(const float *x0, const float *MCC_RESTRICT x1, float *y0)
{
    MCC_WRITES();
    for (int32_t o0 = 0; o0 < 4; ++o0) {
        for (int32_t o1 = 0; o1 < 4; ++o1) {
            for (int32_t m = 0; m < 6; ++m) {
                float acc = 0.0f;
                for (int32_t k0 = 0; k0 < 3; ++k0) {
                    const int32_t i0 = o0 * 2 + k0;
                    for (int32_t k1 = 0; k1 < 3; ++k1) {
                        const int32_t i1 = o1 * 2 + k1;
                        acc += x0[i0 * 54 + i1 * 6 + m] * x1[m * 9 + k0 * 3 + k1];
                    }
                }
                y0[o0 * 24 + o1 * 6 + m] = acc;
            }
        }
    }
}

mcc_status net_run(const net_t *net)
{
    net_arena *const a = net->arena;
    const net_weights *const w = net->weights;

    /* @0 conv */
    MCC_STEP(0, net_k0_conv(a->x.v, w->w, a->y.v), a->y.v);

    return MCC_OK;
}
