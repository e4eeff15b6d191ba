/* SPDX-License-Identifier: 0BSD
 *
 * classify.c - the application around the compiled example network: one recognised digit per line.
 *
 *     mccompile digits.onnx -o out --target generic
 *     cc -std=c99 -O2 -Iout classify.c out/digits.c out/mcc.c -o classify
 *     ./classify out/digits.mcb images.f32
 *
 * images.f32 holds 64 floats per picture, 0 to 16, row by row, in the byte order of this machine. A microcontroller
 * would keep the blob in flash and fill the input from its camera; the four digits_... calls are the same there.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "digits.h"

enum { PIXELS = 64, CLASSES = 10, BLOB_ALIGN = 64, BLOB_MAX_BYTES = 1 << 20 };

static digits_arena arena;

/* The whole file at an address that any target's vector loads accept; NULL where it is missing, empty or too large. */
static const void *read_blob(const char *path, size_t *bytes)
{
    unsigned char *memory = malloc(BLOB_MAX_BYTES + BLOB_ALIGN);
    FILE *file = fopen(path, "rb");
    size_t skip;

    if (memory == NULL || file == NULL) {
        return NULL;
    }
    skip = (size_t)(BLOB_ALIGN - (uintptr_t)memory % BLOB_ALIGN);
    *bytes = fread(memory + skip, 1, BLOB_MAX_BYTES, file);
    fclose(file);
    return *bytes > 0 && *bytes < BLOB_MAX_BYTES ? memory + skip : NULL;
}

static int largest(const float *scores)
{
    int best = 0;
    for (int i = 1; i < CLASSES; ++i) {
        best = scores[i] > scores[best] ? i : best;
    }
    return best;
}

int main(int argc, char **argv)
{
    digits_t net;
    size_t blob_bytes = 0;
    const void *blob;
    FILE *images;
    mcc_status status;

    if (argc != 3) {
        fprintf(stderr, "usage: %s digits.mcb images.f32\n", argv[0]);
        return 2;
    }
    blob = read_blob(argv[1], &blob_bytes);
    images = fopen(argv[2], "rb");
    if (blob == NULL || images == NULL) {
        fprintf(stderr, "%s: cannot read %s\n", argv[0], blob == NULL ? argv[1] : argv[2]);
        return 2;
    }
    status = digits_init(&net, &arena, blob, blob_bytes);
    while (status == MCC_OK && fread(digits_input_image(&net), sizeof(float), PIXELS, images) == PIXELS) {
        status = digits_run(&net);
        printf("%d\n", largest(digits_output_scores(&net)));
    }
    fclose(images);
    if (status != MCC_OK) {
        fprintf(stderr, "%s: %s\n", argv[0], mcc_status_text(status));
        return 1;
    }
    return 0;
}
