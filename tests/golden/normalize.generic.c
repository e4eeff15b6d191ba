/* Written by `make golden`; do not edit. */

/* ---- layer normalisation with scale and shift ---- */

/* gcc 12 takes members of the arena that begin at one address for the smallest of them: a false alarm where it inlines
 * a kernel that writes a larger one. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#endif

/* normalize axes=(1,) epsilon=1e-05, step @0 (normalize.generic): x0 f32[3,40], e0 constants f32[40], e1 constants
 * f32[40] -> y0 f32[3,40] = (acc * e0) + e1. y0 may lie over x0, hence no restrict: what is overwritten there has
 * been read. */
MCC_PLACE_CODE
static void net_k0_normalize(const float *x0, const float *MCC_RESTRICT e0, const float *MCC_RESTRICT e1, float *y0)
{
    MCC_WRITES();
    const float count = (float)(40);

    for (int32_t i0 = 0; i0 < 3; ++i0) {
        const float pivot = x0[i0 * 40];
        float sum = 0.0f;
        for (int32_t r0 = 0; r0 < 40; ++r0) {
            sum += x0[i0 * 40 + r0] - pivot;
        }
        const float mean = pivot + sum / count;
        float squares = 0.0f;
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
    MCC_STEP(0, net_k0_normalize(a->x.v, w->s, w->b, a->y.v), a->y.v);

    return MCC_OK;
}
