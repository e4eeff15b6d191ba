/* Written by `make golden`; do not edit. */

/* ---- the largest of 3x3 with padding ---- */

/* gcc 12 takes members of the arena that begin at one address for the smallest of them: a false alarm where it inlines
 * a kernel that writes a larger one. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#endif

/* pool max 3x3 s2 p1, step @0 (pool.channels): x0 f32[1,20,7,7] nhwc -> y0 f32[1,20,4,4] nhwc. */
MCC_PLACE_CODE
static MCC_NOINLINE void net_k0_pool_0(const float *MCC_RESTRICT x0, float *MCC_RESTRICT y0, int32_t oh, int32_t ow,
    int32_t ih, int32_t lines)
{
    MCC_WRITES();
    (void)lines; /* all of the window's */
    for (int32_t c = 0; c < 16; c += 8) {
        const float *in = &x0[ih * 140 + (ow * 2) * 20 + c];
        mcc_vf acc[4] = { { 0.0f } };
        MCC_UNROLL_FULLY
        for (int32_t column = 1; column < 8; ++column) {
            mcc_vf s = mcc_vload(in + (column - 1) * 20);
            MCC_UNROLL_FULLY
            for (int32_t line = 1; line < 3; ++line) {
                s = mcc_vmax(s, mcc_vload(in + (column - 1) * 20 + line * 140));
            }
            MCC_UNROLL_FULLY
            for (int32_t pixel = 0; pixel < 4; ++pixel) {
                const int32_t tap = column - pixel * 2;
                if ((tap >= 0) && (tap < 3)) {
                    acc[pixel] = ((tap == 0) || (column < 2)) ? s : mcc_vmax(acc[pixel], s);
                }
            }
        }
        MCC_UNROLL_FULLY
        for (int32_t pixel = 0; pixel < 4; ++pixel) {
            mcc_vstore(&y0[oh * 80 + (ow + pixel) * 20 + c], acc[pixel]);
        }
    }
    {
        const int32_t c = 16;
        const float *in = &x0[ih * 140 + (ow * 2) * 20 + c];
        mcc_vf acc[4] = { { 0.0f } };
        MCC_UNROLL_FULLY
        for (int32_t column = 1; column < 8; ++column) {
            mcc_vf s = mcc_vload_n(in + (column - 1) * 20, 4);
            MCC_UNROLL_FULLY
            for (int32_t line = 1; line < 3; ++line) {
                s = mcc_vmax(s, mcc_vload_n(in + (column - 1) * 20 + line * 140, 4));
            }
            MCC_UNROLL_FULLY
            for (int32_t pixel = 0; pixel < 4; ++pixel) {
                const int32_t tap = column - pixel * 2;
                if ((tap >= 0) && (tap < 3)) {
                    acc[pixel] = ((tap == 0) || (column < 2)) ? s : mcc_vmax(acc[pixel], s);
                }
            }
        }
        MCC_UNROLL_FULLY
        for (int32_t pixel = 0; pixel < 4; ++pixel) {
            mcc_vstore_n(&y0[oh * 80 + (ow + pixel) * 20 + c], acc[pixel], 4);
        }
    }
}

MCC_PLACE_CODE
static MCC_NOINLINE void net_k0_pool_0_lines(const float *MCC_RESTRICT x0, float *MCC_RESTRICT y0, int32_t oh,
    int32_t ow, int32_t ih, int32_t lines)
{
    MCC_WRITES();
    for (int32_t c = 0; c < 16; c += 8) {
        const float *in = &x0[ih * 140 + (ow * 2) * 20 + c];
        mcc_vf acc[4] = { { 0.0f } };
        MCC_UNROLL_FULLY
        for (int32_t column = 1; column < 8; ++column) {
            mcc_vf s = mcc_vload(in + (column - 1) * 20);
            for (int32_t line = 1; line < lines; ++line) {
                s = mcc_vmax(s, mcc_vload(in + (column - 1) * 20 + line * 140));
            }
            MCC_UNROLL_FULLY
            for (int32_t pixel = 0; pixel < 4; ++pixel) {
                const int32_t tap = column - pixel * 2;
                if ((tap >= 0) && (tap < 3)) {
                    acc[pixel] = ((tap == 0) || (column < 2)) ? s : mcc_vmax(acc[pixel], s);
                }
            }
        }
        MCC_UNROLL_FULLY
        for (int32_t pixel = 0; pixel < 4; ++pixel) {
            mcc_vstore(&y0[oh * 80 + (ow + pixel) * 20 + c], acc[pixel]);
        }
    }
    {
        const int32_t c = 16;
        const float *in = &x0[ih * 140 + (ow * 2) * 20 + c];
        mcc_vf acc[4] = { { 0.0f } };
        MCC_UNROLL_FULLY
        for (int32_t column = 1; column < 8; ++column) {
            mcc_vf s = mcc_vload_n(in + (column - 1) * 20, 4);
            for (int32_t line = 1; line < lines; ++line) {
                s = mcc_vmax(s, mcc_vload_n(in + (column - 1) * 20 + line * 140, 4));
            }
            MCC_UNROLL_FULLY
            for (int32_t pixel = 0; pixel < 4; ++pixel) {
                const int32_t tap = column - pixel * 2;
                if ((tap >= 0) && (tap < 3)) {
                    acc[pixel] = ((tap == 0) || (column < 2)) ? s : mcc_vmax(acc[pixel], s);
                }
            }
        }
        MCC_UNROLL_FULLY
        for (int32_t pixel = 0; pixel < 4; ++pixel) {
            mcc_vstore_n(&y0[oh * 80 + (ow + pixel) * 20 + c], acc[pixel], 4);
        }
    }
}

MCC_PLACE_CODE
static void net_k0_pool(const float *MCC_RESTRICT x0, float *MCC_RESTRICT y0)
{
    MCC_WRITES();
    for (int32_t oh = 0; oh < 4; ++oh) {
        const int32_t top = oh * 2 - 1;
        const int32_t above = ((top >= 0) ? 0 : ((top + 3 <= 0) ? 3 : (0 - top)));
        const int32_t lines = ((top >= 7) ? 0 : ((top + 3 <= 7) ? 3 : (7 - top))) - above;
        const int32_t ih = top + above;
        {
            const int32_t ow = 0;
            if (lines == 3) {
                net_k0_pool_0(x0, y0, oh, ow, ih, lines);
            } else {
                net_k0_pool_0_lines(x0, y0, oh, ow, ih, lines);
            }
        }
    }
}

mcc_status net_run(const net_t *net)
{
    net_arena *const a = net->arena;

    /* @0 pool */
    MCC_STEP(0, net_k0_pool(a->x.v, a->y.v), a->y.v);

    return MCC_OK;
}
