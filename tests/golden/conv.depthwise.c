/* Written by `make golden`; do not edit. */

/* ---- 3x3 with padding ---- */

/* gcc 12 takes members of the arena that begin at one address for the smallest of them: a false alarm where it inlines
 * a kernel that writes a larger one. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#endif

/* conv 3x3 p1 g18, step @0 (conv.depthwise): x0 f32[1,18,6,9] nhwc, x1 weights f32[3,3,3,8], e0 bias f32[18,1,1] ->
 * y0 f32[1,18,6,9] nhwc = relu((acc + e0)). */
/* Adds a line of the operand to lines of a tile. `in` is column `left` of it, column 0 where the first tap of the tile
 * lies; `w` are the weights for the first of the lines. */
MCC_PLACE_CODE
MCC_INLINE void net_k0_conv_line(mcc_vf (*acc)[9], int32_t lines,
    const float *in, const float *w, int32_t pixels, int32_t left, int32_t right)
{
    MCC_BARRIER();
    mcc_vf taps[1][3];
    MCC_UNROLL_FULLY
    for (int32_t line = 0; line < lines; ++line) {
        MCC_UNROLL_FULLY
        for (int32_t tap = 0; tap < 3; ++tap) {
            taps[line][tap] = mcc_vload(w + tap * 8);
        }
    }
    MCC_UNROLL_FULLY
    for (int32_t column = left; column < right; ++column) {
        const mcc_vf s = mcc_vload(in + (column - left) * 18);
        MCC_UNROLL_FULLY
        for (int32_t pixel = 0; pixel < pixels; ++pixel) {
            const int32_t tap = column - pixel;
            if ((tap >= 0) && (tap < 3)) {
                MCC_UNROLL_FULLY
                for (int32_t line = 0; line < lines; ++line) {
                    acc[line][pixel] = mcc_vfma(s, taps[line][tap], acc[line][pixel]);
                }
            }
        }
    }
}

/* Adds a line of the operand to lines of a tile. `in` is column `left` of it, column 0 where the first tap of the tile
 * lies; `w` are the weights for the first of the lines. */
MCC_PLACE_CODE
MCC_INLINE void net_k0_conv_line_tail(mcc_vf (*acc)[9], int32_t lines,
    const float *in, const float *w, int32_t pixels, int32_t left, int32_t right)
{
    MCC_BARRIER();
    mcc_vf taps[1][3];
    MCC_UNROLL_FULLY
    for (int32_t line = 0; line < lines; ++line) {
        MCC_UNROLL_FULLY
        for (int32_t tap = 0; tap < 3; ++tap) {
            taps[line][tap] = mcc_vload(w + tap * 8);
        }
    }
    MCC_UNROLL_FULLY
    for (int32_t column = left; column < right; ++column) {
        const mcc_vf s = mcc_vload_n(in + (column - left) * 18, 2);
        MCC_UNROLL_FULLY
        for (int32_t pixel = 0; pixel < pixels; ++pixel) {
            const int32_t tap = column - pixel;
            if ((tap >= 0) && (tap < 3)) {
                MCC_UNROLL_FULLY
                for (int32_t line = 0; line < lines; ++line) {
                    acc[line][pixel] = mcc_vfma(s, taps[line][tap], acc[line][pixel]);
                }
            }
        }
    }
}

/* 1 lines of `pixels` results, which see columns `left` .. `right` - 1 of those their taps meet. */
MCC_PLACE_CODE
MCC_INLINE void net_k0_conv_tile1(const float *MCC_RESTRICT x0, const float *MCC_RESTRICT x1,
    const float *MCC_RESTRICT e0, float *MCC_RESTRICT y0, int32_t oh, int32_t ow, int32_t pixels, int32_t left,
    int32_t right)
{
    for (int32_t c = 0; c < 16; c += 8) {
        mcc_vf acc[1][9] = { { { 0.0f } } };
        for (int32_t kh = 0; kh < 3; ++kh) {
            const int32_t ih = oh + kh - 1;
            if ((ih >= 0) && (ih < 6)) {
                net_k0_conv_line(acc, 1,
                    &x0[ih * 162 + (ow + left - 1) * 18 + c],
                    &x1[c * 9 + kh * 24], pixels, left, right);
            }
        }

        MCC_UNROLL_FULLY
        for (int32_t line = 0; line < 1; ++line) {
            MCC_UNROLL_FULLY
            for (int32_t pixel = 0; pixel < pixels; ++pixel) {
                mcc_vstore(&y0[(oh + line) * 162 + (ow + pixel) * 18 + c],
                    mcc_vrelu((acc[line][pixel] + mcc_vload(&e0[c]))));
            }
        }
    }
    {
        const int32_t c = 16;
        mcc_vf acc[1][9] = { { { 0.0f } } };
        for (int32_t kh = 0; kh < 3; ++kh) {
            const int32_t ih = oh + kh - 1;
            if ((ih >= 0) && (ih < 6)) {
                net_k0_conv_line_tail(acc, 1,
                    &x0[ih * 162 + (ow + left - 1) * 18 + c],
                    &x1[c * 9 + kh * 24], pixels, left, right);
            }
        }

        MCC_UNROLL_FULLY
        for (int32_t line = 0; line < 1; ++line) {
            MCC_UNROLL_FULLY
            for (int32_t pixel = 0; pixel < pixels; ++pixel) {
                mcc_vstore_n(&y0[(oh + line) * 162 + (ow + pixel) * 18 + c],
                    mcc_vrelu((acc[line][pixel] + mcc_vload_n(&e0[c], 2))), 2);
            }
        }
    }
}

MCC_PLACE_CODE
static MCC_NOINLINE void net_k0_conv_0x1(const float *MCC_RESTRICT x0, const float *MCC_RESTRICT x1,
    const float *MCC_RESTRICT e0, float *MCC_RESTRICT y0, int32_t oh, int32_t ow)
{
    MCC_WRITES();
    net_k0_conv_tile1(x0, x1, e0, y0, oh, ow, 9, 1, 10);
}

MCC_PLACE_CODE
static void net_k0_conv(const float *MCC_RESTRICT x0, const float *MCC_RESTRICT x1, const float *MCC_RESTRICT e0,
    float *MCC_RESTRICT y0)
{
    MCC_WRITES();
    for (int32_t oh = 0; oh < 6; oh += 1) {
        {
            const int32_t ow = 0;
            net_k0_conv_0x1(x0, x1, e0, y0, oh, ow);
        }
    }
}

mcc_status net_run(const net_t *net)
{
    net_arena *const a = net->arena;
    const net_weights *const w = net->weights;

    /* @0 conv */
    MCC_STEP(0, net_k0_conv(a->x.v, w->w_packeddepthwise, w->b, a->y.v), a->y.v);

    return MCC_OK;
}
