/* Written by `make golden`; do not edit. */

/* gcc 12 writes an address that is made of several pointers as one beside address 0, where nothing may be written, and
 * takes a function with no other stores for one without any: it drops calls of it. With this it does not. */
#if defined(__GNUC__) && !defined(__clang__) && !defined(__FRAMAC__)
#define MCC_WRITES() __atomic_signal_fence(__ATOMIC_SEQ_CST)
#else
#define MCC_WRITES() ((void)0)
#endif

/* max(x, 0), which keeps NaN. */
MCC_PLACE_CODE
static inline float mcc_relu_f32(float x)
{
    return (x < 0.0f) ? 0.0f : x;
}

/* gcc 12 writes an address that is made of several pointers as one beside address 0, where nothing may be written, and
 * takes a function with no other stores for one without any: it drops calls of it. With this it does not. */
#if defined(__GNUC__) && !defined(__clang__) && !defined(__FRAMAC__)
#define MCC_WRITES() __atomic_signal_fence(__ATOMIC_SEQ_CST)
#else
#define MCC_WRITES() ((void)0)
#endif

/* An index into an axis, counted from its end if negative; -1 if it is outside. */
MCC_PLACE_CODE
static inline int32_t mcc_index_i64(int64_t i, int32_t extent)
{
    if (i < -extent || i >= extent) {
        return -1;
    }
    return (int32_t)((i < 0) ? (i + extent) : i);
}

/* 1 / (1 + exp(-x)). */
MCC_PLACE_CODE
static inline float mcc_sigmoid_f32(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

/* The larger of two; NaN if either is. */
MCC_PLACE_CODE
static inline float mcc_max_f32(float a, float b)
{
    return ((a > b) || (a != a)) ? a : b;
}

/* The smaller of two; NaN if either is. */
MCC_PLACE_CODE
static inline float mcc_min_f32(float a, float b)
{
    return ((a < b) || (a != a)) ? a : b;
}

/* The larger of two; NaN if either is. */
MCC_PLACE_CODE
static inline float mcc_max_f32(float a, float b)
{
    return ((a > b) || (a != a)) ? a : b;
}
