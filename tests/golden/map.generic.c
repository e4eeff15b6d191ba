/* Written by `make golden`; do not edit. */

/* ---- a row ---- */

/* map.generic: steps @0 */
static void net_k0_map(const float *x0, const float *MCC_RESTRICT x1, float *y0)
{
    for (int32_t i0 = 0; i0 < 37; ++i0) {
        y0[i0] = x0[i0] * mcc_sigmoid_f32(x1[i0]);
    }
}

mcc_status net_run(const net_t *net)
{
    net_arena *const a = net->arena;

    /* @0 map */
    MCC_PROFILE_BEGIN(0);
    net_k0_map(a->x.v, a->y.v, a->z.v);
    MCC_PROFILE_END(0);
    MCC_TRACE(0, a->z.v, sizeof(a->z.v));

    return MCC_OK;
}

/* ---- broadcast: an operand for each row, one for each column ---- */

/* map.generic: steps @0 */
static void net_k0_map(const float *x0, const float *MCC_RESTRICT x1, const float *MCC_RESTRICT x2, float *y0)
{
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
    MCC_PROFILE_BEGIN(0);
    net_k0_map(a->x.v, a->y.v, a->z.v, a->r.v);
    MCC_PROFILE_END(0);
    MCC_TRACE(0, a->r.v, sizeof(a->r.v));

    return MCC_OK;
}

/* ---- integers: comparison and choice ---- */

/* map.generic: steps @0 */
static void net_k0_map(const int32_t *x0, const int32_t *MCC_RESTRICT x1, int32_t *y0)
{
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
    MCC_PROFILE_BEGIN(0);
    net_k0_map(a->x.v, a->y.v, a->z.v);
    MCC_PROFILE_END(0);
    MCC_TRACE(0, a->z.v, sizeof(a->z.v));

    return MCC_OK;
}
