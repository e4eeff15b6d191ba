/* Written by `make golden`; do not edit. */

/* ---- a transpose of planes to channels-last ---- */

/* gcc 12 takes members of the arena that begin at one address for the smallest of them: a false alarm where it inlines
 * a kernel that writes a larger one. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#endif

/* copy for transpose, step @0 (copy.generic): x0 f32[2,3,4,5] -> y0 f32[2,4,5,3]. */
MCC_PLACE_CODE
static void net_k0_copy(const float *MCC_RESTRICT x0, float *MCC_RESTRICT y0)
{
    MCC_WRITES();
    for (int32_t i0 = 0; i0 < 2; ++i0) {
        for (int32_t i1 = 0; i1 < 20; ++i1) {
            for (int32_t i2 = 0; i2 < 3; ++i2) {
                y0[i0 * 60 + i1 * 3 + i2] = x0[i0 * 60 + i1 + i2 * 20];
            }
        }
    }
}

mcc_status net_run(const net_t *net)
{
    net_arena *const a = net->arena;

    /* @0 transpose */
    MCC_STEP(0, net_k0_copy(a->x.v, a->y.v), a->y.v);

    return MCC_OK;
}

/* ---- every third element of rows ---- */

/* gcc 12 takes members of the arena that begin at one address for the smallest of them: a false alarm where it inlines
 * a kernel that writes a larger one. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#endif

/* copy for slice, step @0 (copy.generic): x0 f32[80] -> y0 f32[4,20]. */
MCC_PLACE_CODE
static void net_k0_copy(const float *MCC_RESTRICT x0, float *MCC_RESTRICT y0)
{
    MCC_WRITES();
    for (int32_t i0 = 0; i0 < 80; ++i0) {
        y0[i0] = x0[i0 * 3];
    }
}

mcc_status net_run(const net_t *net)
{
    net_arena *const a = net->arena;

    /* @0 slice */
    MCC_STEP(0, net_k0_copy(a->x.v + 1, a->y.v), a->y.v);

    return MCC_OK;
}
