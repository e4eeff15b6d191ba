/* Written by `make golden`; do not edit. */

/* ---- a row: whole vectors and a rest ---- */

/* gcc 12 takes members of the arena that begin at one address for the smallest of them: a false alarm where it inlines
 * a kernel that writes a larger one. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#endif

/* map, step @0 (map.vector): x0 f32[37], x1 f32[37] -> y0 f32[37] = x0 * sigmoid(x1). y0 may lie over x0, hence no
 * restrict: what is overwritten there has been read. */
MCC_PLACE_CODE
static void net_k0_map(const float *x0, const float *MCC_RESTRICT x1, float *y0)
{
    MCC_WRITES();
    MCC_UNROLL_FULLY
    for (int32_t j = 0; j < 4; ++j) {
        mcc_vstore(&y0[j * 8], mcc_vgate(mcc_vload(&x0[j * 8]), mcc_vload(&x1[j * 8])));
    }
    mcc_vstore_n(&y0[32], mcc_vgate(mcc_vload_n(&x0[32], 5), mcc_vload_n(&x1[32], 5)), 5);
}

mcc_status net_run(const net_t *net)
{
    net_arena *const a = net->arena;

    /* @0 map */
    MCC_STEP(0, net_k0_map(a->x.v, a->y.v, a->z.v), a->z.v);

    return MCC_OK;
}

/* ---- broadcast: an operand for each row, one for each column ---- */

/* gcc 12 takes members of the arena that begin at one address for the smallest of them: a false alarm where it inlines
 * a kernel that writes a larger one. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#endif

/* map, step @0 (map.vector): x0 f32[3,5,8], x1 f32[3,5,8], x2 f32[3,5,8] -> y0 f32[3,5,8] = min(max((x0 + x1), x2),
 * 6.0). y0 may lie over x0, hence no restrict: what is overwritten there has been read. */
MCC_PLACE_CODE
static void net_k0_map(const float *x0, const float *MCC_RESTRICT x1, const float *MCC_RESTRICT x2, float *y0)
{
    MCC_WRITES();
    for (int32_t i0 = 0; i0 < 3; ++i0) {
        for (int32_t i1 = 0; i1 < 5; ++i1) {
            mcc_vstore(&y0[i0 * 40 + i1 * 8],
                mcc_vmin(mcc_vmax((mcc_vload(&x0[i0 * 40 + i1 * 8]) + mcc_vset(x1[i1])), mcc_vload(&x2[0])),
                mcc_vset(6.0f)));
        }
    }
}

mcc_status net_run(const net_t *net)
{
    net_arena *const a = net->arena;

    /* @0 map */
    MCC_STEP(0, net_k0_map(a->x.v, a->y.v, a->z.v, a->r.v), a->r.v);

    return MCC_OK;
}

/* ---- halves: converted around the arithmetic ---- */

/* gcc 12 takes members of the arena that begin at one address for the smallest of them: a false alarm where it inlines
 * a kernel that writes a larger one. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#endif

/* map storage='f16', step @0 (map.vector): x0 f16[4,21], x1 f16[4,21] -> y0 f16[4,21] = x0 + x1. y0 may lie over x0,
 * hence no restrict: what is overwritten there has been read. */
MCC_PLACE_CODE
static void net_k0_map(const uint16_t *x0, const uint16_t *MCC_RESTRICT x1, uint16_t *y0)
{
    MCC_WRITES();
    for (int32_t i0 = 0; i0 < 4; ++i0) {
        for (int32_t n = 0; n < 16; n += 8) {
            mcc_vstore_f16(&y0[i0 * 21 + n], mcc_vload_f16(&x0[i0 * 21 + n], 8) + mcc_vload_f16(&x1[n], 8), 8);
        }
        mcc_vstore_f16(&y0[i0 * 21 + 16], mcc_vload_f16(&x0[i0 * 21 + 16], 5) + mcc_vload_f16(&x1[16], 5), 5);
    }
}

mcc_status net_run(const net_t *net)
{
    net_arena *const a = net->arena;

    /* @0 map */
    MCC_STEP(0, net_k0_map(a->x.v, a->y.v, a->z.v), a->z.v);

    return MCC_OK;
}

/* ---- whole numbers: sums and products wrap ---- */

/* gcc 12 takes members of the arena that begin at one address for the smallest of them: a false alarm where it inlines
 * a kernel that writes a larger one. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#endif

/* map, step @0 (map.vector): x0 i32[37], x1 i32[37] -> y0 i32[37] = select(lt(x0, x1), max((x0 * x1), i32(-5)), (x0
 * + i32(7))). y0 may lie over x0, hence no restrict: what is overwritten there has been read. */
MCC_PLACE_CODE
static void net_k0_map(const int32_t *x0, const int32_t *MCC_RESTRICT x1, int32_t *y0)
{
    MCC_WRITES();
    MCC_UNROLL_FULLY
    for (int32_t j = 0; j < 4; ++j) {
        const mcc_vi u0 = mcc_vload_i32(&x0[j * 8]);
        const mcc_vi u1 = mcc_vload_i32(&x1[j * 8]);
        mcc_vstore_i32(&y0[j * 8], mcc_vselect_i32((u0 < u1),
            mcc_vmax_i32(((mcc_vi)((mcc_vu)u0 * (mcc_vu)u1)), mcc_vset_i32(-5)),
            ((mcc_vi)((mcc_vu)u0 + (mcc_vu)mcc_vset_i32(7)))));
    }
    {
        const mcc_vi u0 = mcc_vload_i32_n(&x0[32], 5);
        const mcc_vi u1 = mcc_vload_i32_n(&x1[32], 5);
        mcc_vstore_i32_n(&y0[32], mcc_vselect_i32((u0 < u1),
            mcc_vmax_i32(((mcc_vi)((mcc_vu)u0 * (mcc_vu)u1)), mcc_vset_i32(-5)),
            ((mcc_vi)((mcc_vu)u0 + (mcc_vu)mcc_vset_i32(7)))), 5);
    }
}

mcc_status net_run(const net_t *net)
{
    net_arena *const a = net->arena;

    /* @0 map */
    MCC_STEP(0, net_k0_map(a->x.v, a->y.v, a->z.v), a->z.v);

    return MCC_OK;
}
