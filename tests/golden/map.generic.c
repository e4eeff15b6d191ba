/* Written by `make golden`; do not edit. */

/* ---- a row ---- */

/* gcc 12 takes members of the arena that begin at one address for the smallest of them: a false alarm where it inlines
 * a kernel that writes a larger one. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#endif

/* map, step @0 (map.generic): x0 f32[37], x1 f32[37] -> y0 f32[37] = x0 * sigmoid(x1). y0 may lie over x0, hence no
 * restrict: what is overwritten there has been read. */
MCC_PLACE_CODE
static void net_k0_map(const float *x0, const float *MCC_RESTRICT x1, float *y0)
{
    MCC_WRITES();
    for (int32_t i0 = 0; i0 < 37; ++i0) {
        y0[i0] = x0[i0] * mcc_sigmoid_f32(x1[i0]);
    }
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

/* map, step @0 (map.generic): x0 f32[3,5,8], x1 f32[3,5,8], x2 f32[3,5,8] -> y0 f32[3,5,8] = min(max((x0 + x1), x2),
 * 6.0). y0 may lie over x0, hence no restrict: what is overwritten there has been read. */
MCC_PLACE_CODE
static void net_k0_map(const float *x0, const float *MCC_RESTRICT x1, const float *MCC_RESTRICT x2, float *y0)
{
    MCC_WRITES();
    for (int32_t i0 = 0; i0 < 3; ++i0) {
        for (int32_t i1 = 0; i1 < 5; ++i1) {
            for (int32_t i2 = 0; i2 < 8; ++i2) {
                y0[i0 * 40 + i1 * 8 + i2] = mcc_min_f32(mcc_max_f32(x0[i0 * 40 + i1 * 8 + i2] + x1[i1], x2[i2]), 6.0f);
            }
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

/* ---- integers: comparison and choice ---- */

/* gcc 12 takes members of the arena that begin at one address for the smallest of them: a false alarm where it inlines
 * a kernel that writes a larger one. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#endif

/* map, step @0 (map.generic): x0 i32[6,7], x1 i32[6,7] -> y0 i32[6,7] = select(lt(x0, x1), x0, (x1 + i32(1))). y0
 * may lie over x0, hence no restrict: what is overwritten there has been read. */
MCC_PLACE_CODE
static void net_k0_map(const int32_t *x0, const int32_t *MCC_RESTRICT x1, int32_t *y0)
{
    MCC_WRITES();
    for (int32_t i0 = 0; i0 < 6; ++i0) {
        for (int32_t i1 = 0; i1 < 7; ++i1) {
            const int32_t t0 = x0[i0 * 7 + i1];
            const int32_t t1 = x1[i1];
            y0[i0 * 7 + i1] = ((uint8_t)(t0 < t1)) ? t0 : ((int32_t)((uint32_t)t1 + (uint32_t)1));
        }
    }
}

mcc_status net_run(const net_t *net)
{
    net_arena *const a = net->arena;

    /* @0 map */
    MCC_STEP(0, net_k0_map(a->x.v, a->y.v, a->z.v), a->z.v);

    return MCC_OK;
}
