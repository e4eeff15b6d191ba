/* Written by `make golden`; do not edit. */

/* ---- conv.winograd m=2: tiles of two by two ---- */

/* gcc 12 takes members of the arena that begin at one address for the smallest of them: a false alarm where it inlines
 * a kernel that writes a larger one. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#endif

/* conv 3x3 p1, step @0 (conv.winograd): x0 f32[1,8,8,8] nhwc, x1 weights f32[1,16,8,16] -> y0 f32[1,16,8,8] nhwc. */
MCC_PLACE_CODE
static MCC_NOINLINE void net_k0_conv_points(const float *x0, const float *zeros, float *MCC_RESTRICT v, int32_t q)
{
    MCC_WRITES();
    const int32_t i = q / 4;
    const int32_t oh = i * 2;
    const int32_t j = q % 4;
    const int32_t ow = j * 2;

    const float *tap[4][4];
    for (int32_t r = 0; r < 4; ++r) {
        const int32_t h = oh + r - 1;
        for (int32_t s = 0; s < 4; ++s) {
            const int32_t w = ow + s - 1;
            const int inside = (h >= 0) && (h < 8) && (w >= 0) && (w < 8);
            tap[r][s] = inside ? &x0[h * 64 + w * 8] : zeros;
        }
    }
    {
        const int32_t c = 0;
        {
            mcc_vf t[4][4];
            for (int32_t s = 0; s < 4; ++s) {
                const mcc_vf d0 = mcc_vload(tap[0][s] + c);
                const mcc_vf d1 = mcc_vload(tap[1][s] + c);
                const mcc_vf d2 = mcc_vload(tap[2][s] + c);
                const mcc_vf d3 = mcc_vload(tap[3][s] + c);
                const mcc_vf r0 = d2 - d0;
                const mcc_vf r1 = d1 + d2;
                const mcc_vf r2 = d2 - d1;
                const mcc_vf r3 = d3 - d1;
                t[0][s] = r0;
                t[1][s] = r1;
                t[2][s] = r2;
                t[3][s] = r3;
            }
            for (int32_t r = 0; r < 4; ++r) {
                float *out = v + r * 1024 + c;
                const mcc_vf d0 = t[r][0];
                const mcc_vf d1 = t[r][1];
                const mcc_vf d2 = t[r][2];
                const mcc_vf d3 = t[r][3];
                const mcc_vf r0 = d2 - d0;
                const mcc_vf r1 = d1 + d2;
                const mcc_vf r2 = d2 - d1;
                const mcc_vf r3 = d3 - d1;
                mcc_vstore(out, r0);
                mcc_vstore(out + 256, r1);
                mcc_vstore(out + 512, r2);
                mcc_vstore(out + 768, r3);
            }
        }
    }
}

MCC_PLACE_CODE
static MCC_NOINLINE void net_k0_conv_results_16(float *MCC_RESTRICT y0, float *MCC_RESTRICT scratch, int32_t m,
    int32_t q, int32_t n)
{
    MCC_WRITES();
    const int32_t i = q / 4;
    const int32_t oh = i * 2;
    const int32_t j = q % 4;
    const int32_t ow = j * 2;

    for (int32_t c = 0; c < 16; c += 8) {
        {
            mcc_vf t[2][4];
            for (int32_t s = 0; s < 4; ++s) {
                const float *in = scratch + m + s * 16 + c;
                const mcc_vf d0 = mcc_vload(in);
                const mcc_vf d1 = mcc_vload(in + 64);
                const mcc_vf d2 = mcc_vload(in + 128);
                const mcc_vf d3 = mcc_vload(in + 192);
                const mcc_vf r0 = d0 + d1 + d2;
                const mcc_vf r1 = d1 + d3 - d2;
                t[0][s] = r0;
                t[1][s] = r1;
            }
            for (int32_t r = 0; r < 2; ++r) {
                const int32_t h = oh + r;
                const mcc_vf d0 = t[r][0];
                const mcc_vf d1 = t[r][1];
                const mcc_vf d2 = t[r][2];
                const mcc_vf d3 = t[r][3];
                const mcc_vf r0 = d0 + d1 + d2;
                const mcc_vf r1 = d1 + d3 - d2;
                mcc_vstore(&y0[h * 128 + ow * 16 + n + c], r0);
                mcc_vstore(&y0[h * 128 + (ow + 1) * 16 + n + c], r1);
            }
        }
    }
}

MCC_PLACE_CODE
static MCC_NOINLINE void net_k0_conv_6x2(const float *a, const float *w, float *MCC_RESTRICT m)
{
    MCC_WRITES();
    mcc_vf acc[6][2] = { { { 0.0f } } };

    MCC_UNROLL
    for (int32_t i = 0; i < 8; ++i) {
        MCC_BARRIER();
        const mcc_vf w0 = mcc_vload(w);
        const mcc_vf w1 = mcc_vload(w + 8);

        MCC_UNROLL_FULLY
        for (int32_t r = 0; r < 6; ++r) {
            const mcc_vf s = mcc_vset(a[r * 16]);
            acc[r][0] = mcc_vfma(s, w0, acc[r][0]);
            acc[r][1] = mcc_vfma(s, w1, acc[r][1]);
        }

        a += 1;
        w += 16;
    }

    MCC_UNROLL_FULLY
    for (int32_t r = 0; r < 6; ++r) {
        mcc_vstore(m + r * 264, acc[r][0]);
        mcc_vstore(m + r * 264 + 8, acc[r][1]);
    }
}

MCC_PLACE_CODE
static MCC_NOINLINE void net_k0_conv_4x2(const float *a, const float *w, float *MCC_RESTRICT m)
{
    MCC_WRITES();
    mcc_vf acc[4][2] = { { { 0.0f } } };

    MCC_UNROLL
    for (int32_t i = 0; i < 8; ++i) {
        MCC_BARRIER();
        const mcc_vf w0 = mcc_vload(w);
        const mcc_vf w1 = mcc_vload(w + 8);

        MCC_UNROLL_FULLY
        for (int32_t r = 0; r < 4; ++r) {
            const mcc_vf s = mcc_vset(a[r * 16]);
            acc[r][0] = mcc_vfma(s, w0, acc[r][0]);
            acc[r][1] = mcc_vfma(s, w1, acc[r][1]);
        }

        a += 1;
        w += 16;
    }

    MCC_UNROLL_FULLY
    for (int32_t r = 0; r < 4; ++r) {
        mcc_vstore(m + r * 264, acc[r][0]);
        mcc_vstore(m + r * 264 + 8, acc[r][1]);
    }
}

MCC_PLACE_CODE
static void net_k0_conv(const float *MCC_RESTRICT x0, const float *MCC_RESTRICT x1, float *MCC_RESTRICT y0,
    float *MCC_RESTRICT scratch)
{
    MCC_WRITES();
    float *zeros = scratch;
    float *v = zeros + 8;
    const int32_t m = 4104;
    for (int32_t c = 0; c < 8; ++c) {
        zeros[c] = 0.0f;
    }
    {
        const int32_t first = 0;
        for (int32_t q = 0; q < 16; ++q) {
            net_k0_conv_points(x0, zeros, v + q * 16, first + q);
        }
        {
            const int32_t n = 0;
            for (int32_t t = 0; t < 16; ++t) {
                const float *in = v + t * 256;
                const float *w = &x1[(n * 16 + t * 16) * 8];
                float *out = scratch + m + t * 16;
                int32_t q = 0;
                for (; q + 6 <= 16; q += 6) {
                    net_k0_conv_6x2(in + q * 16, w, out + q * 264);
                }
                for (; q + 4 <= 16; q += 4) {
                    net_k0_conv_4x2(in + q * 16, w, out + q * 264);
                }
            }
            for (int32_t q = 0; q < 16; ++q) {
                net_k0_conv_results_16(y0, scratch, m + q * 264, first + q, n);
            }
        }
    }
}

mcc_status net_run(const net_t *net)
{
    net_arena *const a = net->arena;
    const net_weights *const w = net->weights;

    /* @0 conv */
    MCC_STEP(0, net_k0_conv(a->x.v, w->w_packedpoints, a->y.v, a->y_scratch.v), a->y.v);

    return MCC_OK;
}
