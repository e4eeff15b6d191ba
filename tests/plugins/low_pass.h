/* com.acme:LowPass: along the last axis y[0] = x[0], then y[t] = y[t - 1] + share * (x[t] - y[t - 1]). */
#ifndef LOW_PASS_H
#define LOW_PASS_H

#include <stdint.h>

void low_pass(const float *x0, const int32_t *x0_dims, float *y0, const int32_t *y0_dims, float share);

#endif
