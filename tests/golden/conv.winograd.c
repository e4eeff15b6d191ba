/* Written by `make golden`; do not edit. */

/* ---- conv.winograd m=2: tiles of two by two ---- */

/* gcc 12 takes members of the arena that begin at one address for the smallest of them: a false alarm where it inlines
 * a kernel that writes a larger one. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#endif

/* conv 3x3 p1, step @0 (conv.winograd): x0 f32[1,8,8,8] nhwc, x1 weights f32[1,16,8,16] -> y0 f32[1,16,8,8] nhwc. */
MCC_PLACE_CODE
MCC_INLINE void net_k0_conv_points_of1(const mcc_vf *d, mcc_vf *r)
{
    r[0] = d[2] - d[0];
    r[1] = d[1] + d[2];
    r[2] = d[2] - d[1];
    r[3] = d[3] - d[1];
}

MCC_PLACE_CODE
MCC_INLINE void net_k0_conv_results_of1(const mcc_vf *d, mcc_vf *r)
{
    r[0] = d[0] + d[1] + d[2];
    r[1] = d[1] + d[3] - d[2];
}

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
                mcc_vf d[4];
                mcc_vf sums[4];
                MCC_UNROLL_FULLY
                for (int32_t k = 0; k < 4; ++k) {
                    d[k] = mcc_vload(tap[k][s] + c);
                }
                net_k0_conv_points_of1(d, sums);
                MCC_UNROLL_FULLY
                for (int32_t k = 0; k < 4; ++k) {
                    t[k][s] = sums[k];
                }
            }
            for (int32_t r = 0; r < 4; ++r) {
                float *out = v + r * 1024 + c;
                mcc_vf d[4];
                mcc_vf sums[4];
                MCC_UNROLL_FULLY
                for (int32_t k = 0; k < 4; ++k) {
                    d[k] = t[r][k];
                }
                net_k0_conv_points_of1(d, sums);
                MCC_UNROLL_FULLY
                for (int32_t k = 0; k < 4; ++k) {
                    mcc_vstore(out + k * 256, sums[k]);
                }
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
                mcc_vf d[4];
                mcc_vf sums[2];
                MCC_UNROLL_FULLY
                for (int32_t k = 0; k < 4; ++k) {
                    d[k] = mcc_vload(in + k * 64);
                }
                net_k0_conv_results_of1(d, sums);
                MCC_UNROLL_FULLY
                for (int32_t k = 0; k < 2; ++k) {
                    t[k][s] = sums[k];
                }
            }
            for (int32_t r = 0; r < 2; ++r) {
                const int32_t h = oh + r;
                mcc_vf d[4];
                mcc_vf sums[2];
                MCC_UNROLL_FULLY
                for (int32_t k = 0; k < 4; ++k) {
                    d[k] = t[r][k];
                }
                net_k0_conv_results_of1(d, sums);
                MCC_UNROLL_FULLY
                for (int32_t k = 0; k < 2; ++k) {
                    mcc_vstore(&y0[h * 128 + (ow + k) * 16 + n + c], sums[k]);
                }
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
