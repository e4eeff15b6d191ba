/* Written by `make golden`; do not edit. */

/* ---- a matrix by constants, with a bias and an activation ---- */

/* gcc 12 takes members of the arena that begin at one address for the smallest of them: a false alarm where it inlines
 * a kernel that writes a larger one. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#endif

/* matmul, step @0 (matmul.generic): x0 f32[3,7], x1 weights f32[7,5], e0 bias f32[5] -> y0 f32[3,5] = relu((acc +
 * e0)). */
MCC_PLACE_CODE
static void net_k0_matmul(const float *MCC_RESTRICT x0, const float *MCC_RESTRICT x1, const float *MCC_RESTRICT e0,
    float *MCC_RESTRICT y0)
{
    MCC_WRITES();
    for (int32_t m = 0; m < 3; ++m) {
        for (int32_t n = 0; n < 5; ++n) {
            float acc = 0.0f;
            for (int32_t i = 0; i < 7; ++i) {
                acc += x0[m * 7 + i] * x1[i * 5 + n];
            }
            y0[m * 5 + n] = mcc_relu_f32(acc + e0[n]);
        }
    }
}

mcc_status net_run(const net_t *net)
{
    net_arena *const a = net->arena;
    const net_weights *const w = net->weights;

    /* @0 matmul */
    MCC_STEP(0, net_k0_matmul(a->x.v, w->w, w->b, a->y.v), a->y.v);

    return MCC_OK;
}

/* ---- batches of two values, the second transposed ---- */

/* gcc 12 takes members of the arena that begin at one address for the smallest of them: a false alarm where it inlines
 * a kernel that writes a larger one. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#endif

/* matmul trans_b=True, step @0 (matmul.generic): x0 f32[2,3,7], x1 f32[2,4,7] -> y0 f32[2,3,4]. */
MCC_PLACE_CODE
static void net_k0_matmul(const float *MCC_RESTRICT x0, const float *MCC_RESTRICT x1, float *MCC_RESTRICT y0)
{
    MCC_WRITES();
    for (int32_t b0 = 0; b0 < 2; ++b0) {
        for (int32_t m = 0; m < 3; ++m) {
            for (int32_t n = 0; n < 4; ++n) {
                float acc = 0.0f;
                for (int32_t i = 0; i < 7; ++i) {
                    acc += x0[b0 * 21 + m * 7 + i] * x1[b0 * 28 + n * 7 + i];
                }
                y0[b0 * 12 + m * 4 + n] = acc;
            }
        }
    }
}

mcc_status net_run(const net_t *net)
{
    net_arena *const a = net->arena;

    /* @0 matmul */
    MCC_STEP(0, net_k0_matmul(a->x.v, a->z.v, a->y.v), a->y.v);

    return MCC_OK;
}
