/* Written by `make golden`; do not edit. */

/* ---- layer normalisation with scale and shift ---- */

/* normalize.generic: steps @0 */
static void net_k0_normalize(const float *x0, const float *MCC_RESTRICT e0, const float *MCC_RESTRICT e1, float *y0)
{
    const float count = (float)(40);

    for (int32_t i0 = 0; i0 < 3; ++i0) {
        const float pivot = x0[i0 * 40];
        float sum = 0;
        for (int32_t r0 = 0; r0 < 40; ++r0) {
            sum += x0[i0 * 40 + r0] - pivot;
        }
        const float mean = pivot + sum / count;
        float squares = 0;
        for (int32_t r0 = 0; r0 < 40; ++r0) {
            const float d = x0[i0 * 40 + r0] - mean;
            squares += d * d;
        }
        const float scale = 1 / sqrtf(squares / count + 1e-05f);
        for (int32_t r0 = 0; r0 < 40; ++r0) {
            y0[i0 * 40 + r0] = (((x0[i0 * 40 + r0] - mean) * scale) * e0[r0]) + e1[r0];
        }
    }
}

mcc_status net_run(const net_t *net)
{
    net_arena *const a = net->arena;
    const net_weights *const w = net->weights;

    /* @0 normalize */
    MCC_PROFILE_BEGIN(0);
    net_k0_normalize(a->x.v, w->s, w->b, a->y.v);
    MCC_PROFILE_END(0);
    MCC_TRACE(0, a->y.v, sizeof(a->y.v));

    return MCC_OK;
}
