/* Written by `make golden`; do not edit. */

/* ---- two tiles of rows, the last of an odd number; columns that end within a vector ---- */

/* gcc 12 takes members of the arena that begin at one address for the smallest of them: a false alarm where it inlines
 * a kernel that writes a larger one. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#endif

/* matmul, step @0 (matmul.strassen): x0 f32[9,16], x1 weights f32[1344], x2 weights f32[48], e0 bias f32[44] -> y0
 * f32[9,44] = relu((acc + e0)). */
MCC_PLACE_CODE
static MCC_NOINLINE void net_k0_matmul_sums_6(
    const float *MCC_RESTRICT x0, float *MCC_RESTRICT scratch, int32_t m, int32_t within)
{
    MCC_WRITES();
    for (int32_t r = 0; r < 3; ++r) {
        const float *upper = &x0[(m + r) * 16];
        const float *lower = upper + 48;
        float *sums = &scratch[(within / 2) * 112 + r * 16];
        mcc_vf upper_size = mcc_vset(0.0f);
        mcc_vf lower_size = mcc_vset(0.0f);
        for (int32_t n = 0; n < 16; n += 8) {
            {
                const mcc_vf a = mcc_vabs(mcc_vload(upper + n));
                const mcc_vf b = mcc_vabs(mcc_vload(lower + n));
                upper_size = mcc_vselect(a > upper_size, a, upper_size);
                lower_size = mcc_vselect(b > lower_size, b, lower_size);
            }
        }
        /* Rows of one size do not lose each other's digits. */
        const float upper_most = mcc_vtop(upper_size);
        const float upper_power = mcc_power_to_one(upper_most);
        scratch[within / 2 + r + 560] = (upper_most > 0.0f) ? 1.0f / upper_power : 0.0f;
        const float lower_most = mcc_vtop(lower_size);
        const float lower_power = mcc_power_to_one(lower_most);
        scratch[within / 2 + r + 565] = (lower_most > 0.0f) ? 1.0f / lower_power : 0.0f;
        {
            const mcc_vf a11 = mcc_vload(upper) * mcc_vset(upper_power);
            const mcc_vf a12 = mcc_vload(upper + 8) * mcc_vset(upper_power);
            const mcc_vf a21 = mcc_vload(lower) * mcc_vset(lower_power);
            const mcc_vf a22 = mcc_vload(lower + 8) * mcc_vset(lower_power);
            const mcc_vf s1 = a21 + a22;
            const mcc_vf s2 = s1 - a11;
            mcc_vstore(sums, a11);
            mcc_vstore(sums + 48, a12);
            mcc_vstore(sums + 96, s2);
            mcc_vstore(sums + 144, a11 - a21);
            mcc_vstore(sums + 192, a22);
            mcc_vstore(sums + 240, s1);
            mcc_vstore(sums + 288, a12 - s2);
        }
    }
}

MCC_PLACE_CODE
static MCC_NOINLINE void net_k0_matmul_6x44(
    const float *MCC_RESTRICT x1, const float *MCC_RESTRICT x2, const float *MCC_RESTRICT e0, float *MCC_RESTRICT y0,
    float *MCC_RESTRICT scratch, int32_t m, int32_t n, int32_t within)
{
    MCC_WRITES();
    const float *sums = &scratch[(within / 2) * 112];
    const float *weights = &x1[n / 48 * 1344];
    mcc_vf kept[3][3];
    mcc_vf more[3][3];
    MCC_IN_MEMORY(kept);
    MCC_IN_MEMORY(more);
    mcc_vf acc[3][3] = { { { 0.0f } } };

    for (int32_t step = 0; step < 8; ++step) {
        if (step < 7) {
            const float *a = sums + step * 48;
            const float *w = weights + step * 192;
            MCC_UNROLL
            for (int32_t i = 0; i < 8; ++i) {
                MCC_BARRIER();
                const mcc_vf w0 = mcc_vload(w);
                const mcc_vf w1 = mcc_vload(w + 8);
                const mcc_vf w2 = mcc_vload(w + 16);

                MCC_UNROLL_FULLY
                for (int32_t r = 0; r < 3; ++r) {
                    const mcc_vf s = mcc_vset(a[r * 16]);
                    acc[r][0] = mcc_vfma(s, w0, acc[r][0]);
                    acc[r][1] = mcc_vfma(s, w1, acc[r][1]);
                    acc[r][2] = mcc_vfma(s, w2, acc[r][2]);
                }

                a += 1;
                w += 24;
            }
        }
        if ((step == 0) || (step == 2) || (step == 3)) { /* A11 B11, that and s2 t2, and then s3 t3 */
            mcc_vf (*to)[3] = (step == 3) ? more : kept;
            MCC_UNROLL_FULLY
            for (int32_t r = 0; r < 3; ++r) {
                MCC_UNROLL_FULLY
                for (int32_t i = 0; i < 3; ++i) {
                    to[r][i] = acc[r][i];
                }
            }
        } else if (step == 5) { /* s1 t1 is a part of both */
            MCC_UNROLL_FULLY
            for (int32_t r = 0; r < 3; ++r) {
                MCC_UNROLL_FULLY
                for (int32_t i = 0; i < 3; ++i) {
                    more[r][i] += acc[r][i];
                    acc[r][i] += kept[r][i];
                }
            }
        } else { /* C11, C21, C12, C22 */
            const int32_t below = (step == 4) || (step == 7);
            const float *sizes = &scratch[below * 5 + within / 2 + 560];

            if (step < 5) {
                MCC_UNROLL_FULLY
                for (int32_t r = 0; r < 3; ++r) {
                    MCC_UNROLL_FULLY
                    for (int32_t j = 0; j < 3; ++j) {
                        const mcc_vf c = acc[r][j] * mcc_vload(&x2[n + j * 8]) * mcc_vset(sizes[r]);
                        mcc_vstore(&y0[(m + below * 3 + r) * 44 + n + j * 8],
                            mcc_vrelu((c + mcc_vload(&e0[n + j * 8]))));
                    }
                }
            } else {
                MCC_UNROLL_FULLY
                for (int32_t r = 0; r < 3; ++r) {
                    MCC_UNROLL_FULLY
                    for (int32_t j = 0; j < 2; ++j) {
                        const mcc_vf c = acc[r][j] * mcc_vload(&x2[(n + 24) + j * 8]) * mcc_vset(sizes[r]);
                        mcc_vstore(&y0[(m + below * 3 + r) * 44 + (n + 24) + j * 8],
                            mcc_vrelu((c + mcc_vload(&e0[(n + 24) + j * 8]))));
                    }
                    const mcc_vf c2 = acc[r][2] * mcc_vload(&x2[(n + 24) + 16]) * mcc_vset(sizes[r]);
                    mcc_vstore_n(&y0[(m + below * 3 + r) * 44 + (n + 24) + 16],
                        mcc_vrelu((c2 + mcc_vload_n(&e0[(n + 24) + 16], 4))), 4);
                }
            }
            if (step == 1) {
                MCC_UNROLL_FULLY
                for (int32_t r = 0; r < 3; ++r) {
                    MCC_UNROLL_FULLY
                    for (int32_t i = 0; i < 3; ++i) {
                        acc[r][i] = kept[r][i];
                    }
                }
            } else if (step == 4) {
                MCC_UNROLL_FULLY
                for (int32_t r = 0; r < 3; ++r) {
                    MCC_UNROLL_FULLY
                    for (int32_t i = 0; i < 3; ++i) {
                        acc[r][i] = mcc_vset(0.0f);
                    }
                }
            } else if (step == 6) {
                MCC_UNROLL_FULLY
                for (int32_t r = 0; r < 3; ++r) {
                    MCC_UNROLL_FULLY
                    for (int32_t i = 0; i < 3; ++i) {
                        acc[r][i] = more[r][i];
                    }
                }
            }
        }
    }
}

MCC_PLACE_CODE
static MCC_NOINLINE void net_k0_matmul_sums_3(
    const float *MCC_RESTRICT x0, float *MCC_RESTRICT scratch, int32_t m, int32_t within)
{
    MCC_WRITES();
    for (int32_t r = 0; r < 2; ++r) {
        const float *upper = &x0[(m + r) * 16];
        const float *lower = upper + 16;
        float *sums = &scratch[(within / 2) * 112 + r * 16];
        mcc_vf upper_size = mcc_vset(0.0f);
        mcc_vf lower_size = mcc_vset(0.0f);
        for (int32_t n = 0; n < 16; n += 8) {
            {
                const mcc_vf a = mcc_vabs(mcc_vload(upper + n));
                const mcc_vf b = mcc_vabs(mcc_vload(lower + n));
                upper_size = mcc_vselect(a > upper_size, a, upper_size);
                lower_size = mcc_vselect(b > lower_size, b, lower_size);
            }
        }
        /* Rows of one size do not lose each other's digits. */
        const float upper_most = mcc_vtop(upper_size);
        const float upper_power = mcc_power_to_one(upper_most);
        scratch[within / 2 + r + 560] = (upper_most > 0.0f) ? 1.0f / upper_power : 0.0f;
        const float lower_most = mcc_vtop(lower_size);
        const float lower_power = mcc_power_to_one(lower_most);
        scratch[within / 2 + r + 565] = (lower_most > 0.0f) ? 1.0f / lower_power : 0.0f;
        {
            const mcc_vf a11 = mcc_vload(upper) * mcc_vset(upper_power);
            const mcc_vf a12 = mcc_vload(upper + 8) * mcc_vset(upper_power);
            const mcc_vf a21 = mcc_vload(lower) * mcc_vset(lower_power);
            const mcc_vf a22 = mcc_vload(lower + 8) * mcc_vset(lower_power);
            const mcc_vf s1 = a21 + a22;
            const mcc_vf s2 = s1 - a11;
            mcc_vstore(sums, a11);
            mcc_vstore(sums + 32, a12);
            mcc_vstore(sums + 64, s2);
            mcc_vstore(sums + 96, a11 - a21);
            mcc_vstore(sums + 128, a22);
            mcc_vstore(sums + 160, s1);
            mcc_vstore(sums + 192, a12 - s2);
        }
    }
}

MCC_PLACE_CODE
static MCC_NOINLINE void net_k0_matmul_3x44(
    const float *MCC_RESTRICT x1, const float *MCC_RESTRICT x2, const float *MCC_RESTRICT e0, float *MCC_RESTRICT y0,
    float *MCC_RESTRICT scratch, int32_t m, int32_t n, int32_t within)
{
    MCC_WRITES();
    const float *sums = &scratch[(within / 2) * 112];
    const float *weights = &x1[n / 48 * 1344];
    mcc_vf kept[2][3];
    mcc_vf more[2][3];
    MCC_IN_MEMORY(kept);
    MCC_IN_MEMORY(more);
    mcc_vf acc[2][3] = { { { 0.0f } } };

    for (int32_t step = 0; step < 8; ++step) {
        if (step < 7) {
            const float *a = sums + step * 32;
            const float *w = weights + step * 192;
            MCC_UNROLL
            for (int32_t i = 0; i < 8; ++i) {
                MCC_BARRIER();
                const mcc_vf w0 = mcc_vload(w);
                const mcc_vf w1 = mcc_vload(w + 8);
                const mcc_vf w2 = mcc_vload(w + 16);

                MCC_UNROLL_FULLY
                for (int32_t r = 0; r < 2; ++r) {
                    const mcc_vf s = mcc_vset(a[r * 16]);
                    acc[r][0] = mcc_vfma(s, w0, acc[r][0]);
                    acc[r][1] = mcc_vfma(s, w1, acc[r][1]);
                    acc[r][2] = mcc_vfma(s, w2, acc[r][2]);
                }

                a += 1;
                w += 24;
            }
        }
        if ((step == 0) || (step == 2) || (step == 3)) { /* A11 B11, that and s2 t2, and then s3 t3 */
            mcc_vf (*to)[3] = (step == 3) ? more : kept;
            MCC_UNROLL_FULLY
            for (int32_t r = 0; r < 2; ++r) {
                MCC_UNROLL_FULLY
                for (int32_t i = 0; i < 3; ++i) {
                    to[r][i] = acc[r][i];
                }
            }
        } else if (step == 5) { /* s1 t1 is a part of both */
            MCC_UNROLL_FULLY
            for (int32_t r = 0; r < 2; ++r) {
                MCC_UNROLL_FULLY
                for (int32_t i = 0; i < 3; ++i) {
                    more[r][i] += acc[r][i];
                    acc[r][i] += kept[r][i];
                }
            }
        } else { /* C11, C21, C12, C22 */
            const int32_t below = (step == 4) || (step == 7);
            const float *sizes = &scratch[below * 5 + within / 2 + 560];

            if (step < 5) {
                MCC_UNROLL_FULLY
                for (int32_t r = 0; r < 2; ++r) {
                    if (r >= below) { /* the last row of the upper half is the first of the lower */
                        MCC_UNROLL_FULLY
                        for (int32_t j = 0; j < 3; ++j) {
                            const mcc_vf c = acc[r][j] * mcc_vload(&x2[n + j * 8]) * mcc_vset(sizes[r]);
                            mcc_vstore(&y0[(m + below + r) * 44 + n + j * 8],
                                mcc_vrelu((c + mcc_vload(&e0[n + j * 8]))));
                        }
                    }
                }
            } else {
                MCC_UNROLL_FULLY
                for (int32_t r = 0; r < 2; ++r) {
                    if (r >= below) { /* the last row of the upper half is the first of the lower */
                        MCC_UNROLL_FULLY
                        for (int32_t j = 0; j < 2; ++j) {
                            const mcc_vf c = acc[r][j] * mcc_vload(&x2[(n + 24) + j * 8]) * mcc_vset(sizes[r]);
                            mcc_vstore(&y0[(m + below + r) * 44 + (n + 24) + j * 8],
                                mcc_vrelu((c + mcc_vload(&e0[(n + 24) + j * 8]))));
                        }
                        const mcc_vf c2 = acc[r][2] * mcc_vload(&x2[(n + 24) + 16]) * mcc_vset(sizes[r]);
                        mcc_vstore_n(&y0[(m + below + r) * 44 + (n + 24) + 16],
                            mcc_vrelu((c2 + mcc_vload_n(&e0[(n + 24) + 16], 4))), 4);
                    }
                }
            }
            if (step == 1) {
                MCC_UNROLL_FULLY
                for (int32_t r = 0; r < 2; ++r) {
                    MCC_UNROLL_FULLY
                    for (int32_t i = 0; i < 3; ++i) {
                        acc[r][i] = kept[r][i];
                    }
                }
            } else if (step == 4) {
                MCC_UNROLL_FULLY
                for (int32_t r = 0; r < 2; ++r) {
                    MCC_UNROLL_FULLY
                    for (int32_t i = 0; i < 3; ++i) {
                        acc[r][i] = mcc_vset(0.0f);
                    }
                }
            } else if (step == 6) {
                MCC_UNROLL_FULLY
                for (int32_t r = 0; r < 2; ++r) {
                    MCC_UNROLL_FULLY
                    for (int32_t i = 0; i < 3; ++i) {
                        acc[r][i] = more[r][i];
                    }
                }
            }
        }
    }
}

MCC_PLACE_CODE
static void net_k0_matmul(const float *MCC_RESTRICT x0, const float *MCC_RESTRICT x1, const float *MCC_RESTRICT x2,
    const float *MCC_RESTRICT e0, float *MCC_RESTRICT y0, float *MCC_RESTRICT scratch)
{
    MCC_WRITES();
    {
        const int32_t m = 0;
        net_k0_matmul_sums_6(x0, scratch, m, m);
    }
    {
        const int32_t m = 6;
        net_k0_matmul_sums_3(x0, scratch, m, m);
    }
    {
        const int32_t n = 0;
        {
            const int32_t m = 0;
            net_k0_matmul_6x44(x1, x2, e0, y0, scratch, m, n, m);
        }
        {
            const int32_t m = 6;
            net_k0_matmul_3x44(x1, x2, e0, y0, scratch, m, n, m);
        }
    }
}

mcc_status net_run(const net_t *net)
{
    net_arena *const a = net->arena;
    const net_weights *const w = net->weights;

    /* @0 matmul */
    MCC_STEP(0, net_k0_matmul(a->x.v, w->w_strassencolumns, w->w_unscaled, w->b, a->y.v, a->y_scratch.v), a->y.v);

    return MCC_OK;
}
