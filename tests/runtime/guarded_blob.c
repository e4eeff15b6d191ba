/* SPDX-License-Identifier: 0BSD
 *
 * Feeds mcc.c with damaged blobs that end at a page nobody may touch. Exits 0 if all were treated as they should be;
 * dies on a signal or a sanitizer report if a byte too many was read. Usage: guarded_blob BLOB
 */
#define _DEFAULT_SOURCE
#include "mcc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define MUST(cond)                                                                                                     \
    do {                                                                                                               \
        if (!(cond)) {                                                                                                 \
            fprintf(stderr, "line %d: %s\n", __LINE__, #cond);                                                         \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

enum { ROOM = 8192, PAGE = 4096 };

static uint8_t original[ROOM];
static size_t original_bytes;
static uint8_t *room;           /* ROOM bytes, then the forbidden page */
static mcc_blob_expect expect;  /* align 1, so that any place will do */
static unsigned long touched;   /* keeps the reads alive */
static unsigned seen[MCC_END + 1];

static uint8_t *place(const uint8_t *data, size_t bytes)
{
    uint8_t *at = room + ROOM - bytes;
    memcpy(at, data, bytes);
    return at;
}

static void touch(const void *data, size_t bytes)
{
    const uint8_t *b = data;
    size_t i;
    for (i = 0; i < bytes; i++) {
        touched += b[i];
    }
}

static mcc_status check(const uint8_t *at, size_t bytes)
{
    const void *payload = at;
    mcc_status status = mcc_blob_check(at, bytes, &expect, &payload);
    MUST((status == MCC_OK) == (payload != NULL));
    if (payload != NULL) {
        touch(payload, expect.payload_bytes);
    }
    return status;
}

static mcc_status walk(const uint8_t *at, size_t bytes)
{
    mcc_blob_dir dir;
    mcc_blob_tensor t;
    mcc_status status = mcc_blob_dir_open(at, bytes, &dir);
    while (status == MCC_OK) {
        status = mcc_blob_dir_next(&dir, &t);
        if (status == MCC_OK) {
            uint32_t axis;
            touch(t.name, strlen(t.name));
            touch(t.data, t.bytes);
            for (axis = 0; axis <= t.rank; axis++) {
                touched += mcc_blob_dim(&t, axis);
            }
            MUST(t.dtype >= MCC_F32 && t.dtype <= MCC_BOOL);
        }
    }
    return status;
}

static void put_u32(uint8_t *at, uint32_t value)
{
    int i;
    for (i = 0; i < 4; i++) {
        at[i] = (uint8_t)(value >> (8 * i));
    }
}

static uint32_t get_u32(const uint8_t *at)
{
    return at[0] | ((uint32_t)at[1] << 8) | ((uint32_t)at[2] << 16) | ((uint32_t)at[3] << 24);
}

static uint32_t draw(uint32_t bound)
{
    static uint32_t state = 2463534242u;
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state % bound;
}

static void truncations(void)
{
    size_t bytes;
    for (bytes = 0; bytes < original_bytes; bytes++) {
        const uint8_t *at = place(original, bytes);
        MUST(check(at, bytes) == MCC_E_SIZE);
        MUST(mcc_blob_verify(at, bytes) == MCC_E_SIZE);
        MUST(walk(at, bytes) == MCC_E_SIZE);
    }
}

static void flipped_bits(void)
{
    size_t bit;
    for (bit = 0; bit < 8 * original_bytes; bit++) {
        uint8_t *at = place(original, original_bytes);
        at[bit / 8] = (uint8_t)(at[bit / 8] ^ (1u << bit % 8));
        if (bit < 8 * MCC_BLOB_HEADER_BYTES) {
            const mcc_status by_word[] = {MCC_E_MAGIC, MCC_E_VERSION, MCC_E_ENDIAN, MCC_E_HEADER};
            const mcc_status wanted = by_word[bit < 96 ? bit / 32 : 3];
            MUST(check(at, original_bytes) == wanted);
            MUST(mcc_blob_verify(at, original_bytes) == wanted);
            MUST(walk(at, original_bytes) == wanted);
        } else {
            MUST(check(at, original_bytes) == MCC_OK);
            MUST(mcc_blob_verify(at, original_bytes) == MCC_E_PAYLOAD);
            (void)walk(at, original_bytes);
        }
    }
}

/* Damage under right CRCs: only the checks of sizes and offsets stand between it and the forbidden page. */
static void forgeries(void)
{
    const uint32_t values[] = {0, 1, 4, 60, 63, 64, 65, 127, 128, 255, 0x7FFFFFFF, 0x80000000, 0xFFFFFFC0, 0xFFFFFFFF};
    const uint32_t directory = get_u32(original + MCC_BLOB_OFF_DIRECTORY_OFFSET);
    int round;
    for (round = 0; round < 60000; round++) {
        uint8_t *at = place(original, original_bytes);
        unsigned n;
        for (n = 1 + draw(3); n > 0; n--) {
            if (round % 2 == 0) {
                uint32_t field = MCC_BLOB_OFF_HEADER_BYTES + 4 * draw(7);
                uint32_t near_end = (uint32_t)original_bytes + draw(9) - 4;
                put_u32(at + field, draw(3) == 0 ? near_end : values[draw(sizeof values / sizeof values[0])]);
            } else {
                uint32_t place_in = directory + draw((uint32_t)original_bytes - directory);
                at[place_in] = (uint8_t)(draw(2) == 0 ? values[draw(14)] : draw(256));
            }
        }
        put_u32(at + MCC_BLOB_OFF_PAYLOAD_CRC, mcc_crc32(0, at + 64, original_bytes - 64));
        put_u32(at + MCC_BLOB_OFF_HEADER_CRC, mcc_crc32(0, at, MCC_BLOB_OFF_HEADER_CRC));
        seen[check(at, original_bytes)]++;
        seen[mcc_blob_verify(at, original_bytes)]++;
        seen[walk(at, original_bytes)]++;
    }
}

int main(int argc, char **argv)
{
    FILE *file = argc == 2 ? fopen(argv[1], "rb") : NULL;
    const uint8_t *at;
    MUST(file != NULL);
    original_bytes = fread(original, 1, sizeof original, file);
    fclose(file);
    room = mmap(NULL, ROOM + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(room != MAP_FAILED && mprotect(room + ROOM, PAGE, PROT_NONE) == 0);
    memcpy(expect.id, original + MCC_BLOB_OFF_ID, sizeof expect.id);
    expect.payload_bytes = get_u32(original + MCC_BLOB_OFF_PAYLOAD_BYTES);
    expect.align = 1;

    at = place(original, original_bytes);
    MUST(check(at, original_bytes) == MCC_OK && mcc_blob_verify(at, original_bytes) == MCC_OK);
    MUST(walk(at, original_bytes) == MCC_END);
    truncations();
    flipped_bits();
    forgeries();
    /* the forgeries have to have reached all that they are meant to reach */
    MUST(seen[MCC_OK] > 1000 && seen[MCC_E_SIZE] > 1000 && seen[MCC_E_DIRECTORY] > 1000 && seen[MCC_END] > 1000);
    MUST(touched != 0);
    return 0;
}
