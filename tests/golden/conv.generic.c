/* Written by `make golden`; do not edit. */

/* ---- 3x3 with padding, bias and activation ---- */

/* conv.generic: steps @0 */
static void net_k0_conv(const float *x0, const float *MCC_RESTRICT x1, const float *MCC_RESTRICT e0, float *y0)
{
    for (int32_t n = 0; n < 1; ++n) {
        for (int32_t m = 0; m < 4; ++m) {
            for (int32_t o0 = 0; o0 < 9; ++o0) {
                for (int32_t o1 = 0; o1 < 8; ++o1) {
                    float acc = 0;
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
}

mcc_status net_run(const net_t *net)
{
    net_arena *const a = net->arena;
    const net_weights *const w = net->weights;

    /* @0 conv */
    MCC_PROFILE_BEGIN(0);
    net_k0_conv(a->x.v, w->w, w->b, a->y.v);
    MCC_PROFILE_END(0);
    MCC_TRACE(0, a->y.v, sizeof(a->y.v));

    return MCC_OK;
}

/* ---- 1x1 ---- */

/* conv.generic: steps @0 */
static void net_k0_conv(const float *x0, const float *MCC_RESTRICT x1, float *y0)
{
    for (int32_t n = 0; n < 1; ++n) {
        for (int32_t m = 0; m < 4; ++m) {
            for (int32_t o0 = 0; o0 < 5; ++o0) {
                for (int32_t o1 = 0; o1 < 5; ++o1) {
                    float acc = 0;
                    for (int32_t c = 0; c < 6; ++c) {
                        for (int32_t k0 = 0; k0 < 1; ++k0) {
                            const int32_t i0 = o0 + k0;
                            if ((i0 < 0) || (i0 >= 5)) {
                                continue;
                            }
                            for (int32_t k1 = 0; k1 < 1; ++k1) {
                                const int32_t i1 = o1 + k1;
                                if ((i1 < 0) || (i1 >= 5)) {
                                    continue;
                                }
                                acc += x0[c * 25 + i0 * 5 + i1] * x1[m * 6 + c];
                            }
                        }
                    }
                    y0[m * 25 + o0 * 5 + o1] = acc;
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
    net_k0_conv(a->x.v, w->w, a->y.v);
    MCC_PROFILE_END(0);
    MCC_TRACE(0, a->y.v, sizeof(a->y.v));

    return MCC_OK;
}

/* ---- depthwise, stride 2, channels-last ---- */

/* conv.generic: steps @0 */
static void net_k0_conv(const float *x0, const float *MCC_RESTRICT x1, float *y0)
{
    for (int32_t n = 0; n < 1; ++n) {
        for (int32_t o0 = 0; o0 < 4; ++o0) {
            for (int32_t o1 = 0; o1 < 4; ++o1) {
                for (int32_t m = 0; m < 6; ++m) {
                    const int32_t first = m / (6 / 6);
                    float acc = 0;
                    for (int32_t c = 0; c < 1; ++c) {
                        for (int32_t k0 = 0; k0 < 3; ++k0) {
                            const int32_t i0 = o0 * 2 + k0;
                            if ((i0 < 0) || (i0 >= 9)) {
                                continue;
                            }
                            for (int32_t k1 = 0; k1 < 3; ++k1) {
                                const int32_t i1 = o1 * 2 + k1;
                                if ((i1 < 0) || (i1 >= 9)) {
                                    continue;
                                }
                                acc += x0[i0 * 54 + i1 * 6 + first + c] * x1[m * 9 + k0 * 3 + k1];
                            }
                        }
                    }
                    y0[o0 * 24 + o1 * 6 + m] = acc;
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
    net_k0_conv(a->x.v, w->w, a->y.v);
    MCC_PROFILE_END(0);
    MCC_TRACE(0, a->y.v, sizeof(a->y.v));

    return MCC_OK;
}
