/* Written by `make golden`; do not edit. */

/* ---- three steps of a batch of one ---- */

/* gcc 12 takes members of the arena that begin at one address for the smallest of them: a false alarm where it inlines
 * a kernel that writes a larger one. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#endif

/* lstm outputs=('y','h','c') reverse=False, step @0 (lstm.vector): x0 f32[3,1,36], x1 constants f32[1,9,4,16], x3
 * f32[1,9], x4 f32[1,9] -> y0 f32[3,1,9], y1 f32[1,9], y2 f32[1,9]. */
MCC_PLACE_CODE
static MCC_NOINLINE void net_k0_lstm_9(const float *MCC_RESTRICT x0, const float *MCC_RESTRICT x1,
    float *MCC_RESTRICT y0, float *MCC_RESTRICT scratch, int32_t t, int32_t j, int32_t from)
{
    MCC_WRITES();
    const float *h = scratch + from;
    float *next = scratch + (9 - from);
    const int32_t turn = (from == 0) ? 1 : -1;
    const int32_t first = (from == 0) ? 0 : 8;
    const float *own = &x1[j * 36];
    mcc_vf g0_0 = mcc_vload(&x0[t * 36 + j]);
    mcc_vf g0_1 = mcc_vload_n(&x0[t * 36 + j + 8], 1);
    mcc_vf g1_0 = mcc_vload(&x0[t * 36 + j + 9]);
    mcc_vf g1_1 = mcc_vload_n(&x0[t * 36 + j + 17], 1);
    mcc_vf g2_0 = mcc_vload(&x0[t * 36 + j + 18]);
    mcc_vf g2_1 = mcc_vload_n(&x0[t * 36 + j + 26], 1);
    mcc_vf g3_0 = mcc_vload(&x0[t * 36 + j + 27]);
    mcc_vf g3_1 = mcc_vload_n(&x0[t * 36 + j + 35], 1);
    for (int32_t i = 0; i < 9; ++i) {
        const int32_t unit = first + turn * i;
        const float *w = own + unit * 64;
        const mcc_vf s = mcc_vset(h[unit]);
        g0_0 = mcc_vfma(s, mcc_vload(w), g0_0);
        g0_1 = mcc_vfma(s, mcc_vload(w + 8), g0_1);
        g1_0 = mcc_vfma(s, mcc_vload(w + 16), g1_0);
        g1_1 = mcc_vfma(s, mcc_vload(w + 24), g1_1);
        g2_0 = mcc_vfma(s, mcc_vload(w + 32), g2_0);
        g2_1 = mcc_vfma(s, mcc_vload(w + 40), g2_1);
        g3_0 = mcc_vfma(s, mcc_vload(w + 48), g3_0);
        g3_1 = mcc_vfma(s, mcc_vload(w + 56), g3_1);
    }
    float *c = scratch + 18;
    const mcc_vf before0 = mcc_vload(c + j);
    const mcc_vf in0 = mcc_vsigmoid(g0_0);
    const mcc_vf keep0 = mcc_vsigmoid(g2_0);
    const mcc_vf cell0 = mcc_vtanh(g3_0);
    const mcc_vf now0 = mcc_vfma(keep0, before0, in0 * cell0);
    const mcc_vf out0 = mcc_vsigmoid(g1_0);
    const mcc_vf shown0 = mcc_vtanh(now0);
    const mcc_vf h0 = out0 * shown0;
    mcc_vstore(c + j, now0);
    mcc_vstore(next + j, h0);
    mcc_vstore(&y0[t * 9 + j], h0);
    const mcc_vf before1 = mcc_vload_n(c + j + 8, 1);
    const mcc_vf in1 = mcc_vsigmoid(g0_1);
    const mcc_vf keep1 = mcc_vsigmoid(g2_1);
    const mcc_vf cell1 = mcc_vtanh(g3_1);
    const mcc_vf now1 = mcc_vfma(keep1, before1, in1 * cell1);
    const mcc_vf out1 = mcc_vsigmoid(g1_1);
    const mcc_vf shown1 = mcc_vtanh(now1);
    const mcc_vf h1 = out1 * shown1;
    mcc_vstore_n(c + j + 8, now1, 1);
    mcc_vstore_n(next + j + 8, h1, 1);
    mcc_vstore_n(&y0[t * 9 + j + 8], h1, 1);
}

MCC_PLACE_CODE
static void net_k0_lstm(const float *MCC_RESTRICT x0, const float *MCC_RESTRICT x1, const float *MCC_RESTRICT x3,
    const float *MCC_RESTRICT x4, float *MCC_RESTRICT y0, float *MCC_RESTRICT y1, float *MCC_RESTRICT y2,
    float *MCC_RESTRICT scratch)
{
    MCC_WRITES();
    int32_t from = 0;
    for (int32_t j = 0; j < 9; ++j) {
        scratch[j] = x3[j];
        scratch[j + 18] = x4[j];
    }
    for (int32_t t = 0; t < 3; ++t) {
        if (from == 0) {
            {
                const int32_t j = 0;
                net_k0_lstm_9(x0, x1, y0, scratch, t, j, from);
            }
        } else {
            {
                const int32_t j = 0;
                net_k0_lstm_9(x0, x1, y0, scratch, t, j, from);
            }
        }
        from = 9 - from;
    }
    for (int32_t j = 0; j < 9; ++j) {
        y1[j] = scratch[from + j];
    }
    for (int32_t j = 0; j < 9; ++j) {
        y2[j] = scratch[j + 18];
    }
}

mcc_status net_run(const net_t *net)
{
    net_arena *const a = net->arena;
    const net_weights *const w = net->weights;

    /* @0 lstm */
    MCC_STEP(0, net_k0_lstm(a->g.v, w->r_unitblocks, a->h.v, a->c.v, a->y.v, a->p.v, a->q.v, a->y_scratch.v), a->y.v);
    MCC_TRACE(0, a->p.v, sizeof(a->p.v));
    MCC_TRACE(0, a->q.v, sizeof(a->q.v));

    return MCC_OK;
}
