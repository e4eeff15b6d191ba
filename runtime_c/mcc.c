/* SPDX-License-Identifier: 0BSD
 *
 * mcc.c - checks and reads weights blobs of mccompile; the interface and its contract are in mcc.h, the format in
 * docs/blob-format.md.
 *
 * MISRA C:2012 mandatory and required rules are meant to hold. Deviations, all advisory:
 *   10.5  byte to enumeration, in mcc_blob_dir_next, after its range was checked
 *   11.4  address to integer, in mcc_pointer_check alone: there is no other way to ask for an alignment
 *   11.5  void pointer to byte pointer: blobs come as bare addresses
 *   15.5  several returns: guard clauses, so that nothing is read before it was checked
 *
 * Comments with an @ are read by Frama-C, which proves that nothing is read or written but what is there.
 */
#include "mcc.h"

#include <stdbool.h>

/* CRC-32, polynomial 0xEDB88320 reflected, one nibble at a time: 64 bytes of table instead of 1024. */
static const uint32_t crc_of_nibble[16] = {
    0x00000000u, 0x1DB71064u, 0x3B6E20C8u, 0x26D930ACu, 0x76DC4190u, 0x6B6B51F4u, 0x4DB26158u, 0x5005713Cu,
    0xEDB88320u, 0xF00F9344u, 0xD6D6A3E8u, 0xCB61B38Cu, 0x9B64C2B0u, 0x86D3D2D4u, 0xA00AE278u, 0xBDBDF21Cu};

uint32_t mcc_crc32(uint32_t crc, const void *data, size_t bytes)
{
    const uint8_t *b = data;
    uint32_t r = ~crc;
    size_t i;
    /*@ loop invariant 0 <= i <= bytes;
        loop assigns i, r;
        loop variant bytes - i; */
    for (i = 0u; i < bytes; i++) {
        r ^= b[i];
        r = (r >> 4) ^ crc_of_nibble[r & 15u];
        r = (r >> 4) ^ crc_of_nibble[r & 15u];
    }
    return ~r;
}

/* Byte by byte: blobs may lie at any address, and not every core reads unaligned words. */
static uint32_t read_u32(const uint8_t *b)
{
    return (uint32_t)b[0] | ((uint32_t)b[1] << 8) | ((uint32_t)b[2] << 16) | ((uint32_t)b[3] << 24);
}

static bool host_is_little_endian(void)
{
    const uint32_t mark = MCC_BLOB_ENDIAN_MARK;
    const uint8_t *first = (const uint8_t *)&mark;
    return first[0] == 4u;
}

/* Whether [offset, offset + bytes) lies between the header and `end`, without wrapping; never if there is no header
 * before `end`. */
static bool is_inside(const uint8_t *field, uint32_t end)
{
    const uint32_t offset = read_u32(&field[0]);
    const uint32_t bytes = read_u32(&field[4]);
    return (offset >= MCC_BLOB_HEADER_BYTES) && (offset <= end) && (bytes <= (end - offset));
}

/* All that can be said without knowing the program. After MCC_OK every section lies inside of `blob_bytes`. */
static mcc_status check_header(const uint8_t *b, size_t blob_bytes)
{
    uint32_t total;
    if (b == NULL) {
        return MCC_E_NULL;
    }
    if (blob_bytes < MCC_BLOB_HEADER_BYTES) {
        return MCC_E_SIZE;
    }
    if (!host_is_little_endian()) {
        return MCC_E_ENDIAN; /* and an embedded blob, which is words, does not even begin as one there */
    }
    if (read_u32(&b[MCC_BLOB_OFF_MAGIC]) != MCC_BLOB_MAGIC) {
        return MCC_E_MAGIC;
    }
    if (read_u32(&b[MCC_BLOB_OFF_FORMAT_VERSION]) != MCC_BLOB_FORMAT_VERSION) {
        return MCC_E_VERSION;
    }
    if (read_u32(&b[MCC_BLOB_OFF_ENDIAN_MARK]) != MCC_BLOB_ENDIAN_MARK) {
        return MCC_E_ENDIAN;
    }
    if (mcc_crc32(0u, b, MCC_BLOB_OFF_HEADER_CRC) != read_u32(&b[MCC_BLOB_OFF_HEADER_CRC])) {
        return MCC_E_HEADER;
    }
    total = read_u32(&b[MCC_BLOB_OFF_BLOB_BYTES]);
    if ((read_u32(&b[MCC_BLOB_OFF_HEADER_BYTES]) != MCC_BLOB_HEADER_BYTES) || (total > blob_bytes) ||
        !is_inside(&b[MCC_BLOB_OFF_PAYLOAD_OFFSET], total) ||
        !is_inside(&b[MCC_BLOB_OFF_DIRECTORY_OFFSET], total)) {
        return MCC_E_SIZE;
    }
    return MCC_OK;
}

mcc_status mcc_pointer_check(const void *p, uint32_t align)
{
    const uint8_t *b = p;
    if (b == NULL) {
        return MCC_E_NULL;
    }
    return (((uintptr_t)b & ((uintptr_t)align - 1u)) == 0u) ? MCC_OK : MCC_E_ALIGN;
}

mcc_status mcc_blob_check(const void *blob, size_t blob_bytes, const mcc_blob_expect *expect, const void **payload)
{
    const uint8_t *b = blob;
    mcc_status status;
    uint32_t i;
    uint32_t offset;
    if (payload == NULL) {
        return MCC_E_NULL;
    }
    *payload = NULL;
    if (expect == NULL) {
        return MCC_E_NULL;
    }
    status = mcc_pointer_check(blob, expect->align);
    if (status == MCC_OK) {
        status = check_header(b, blob_bytes);
    }
    if (status != MCC_OK) {
        return status;
    }
    /*@ loop invariant 0 <= i <= MCC_BLOB_ID_BYTES;
        loop assigns i;
        loop variant MCC_BLOB_ID_BYTES - i; */
    for (i = 0u; i < MCC_BLOB_ID_BYTES; i++) {
        if (b[MCC_BLOB_OFF_ID + i] != expect->id[i]) {
            return MCC_E_ID;
        }
    }
    if (read_u32(&b[MCC_BLOB_OFF_PAYLOAD_BYTES]) != expect->payload_bytes) {
        return MCC_E_SIZE;
    }
    offset = read_u32(&b[MCC_BLOB_OFF_PAYLOAD_OFFSET]);
    if ((offset & (expect->align - 1u)) != 0u) {
        return MCC_E_ALIGN;
    }
    *payload = &b[offset];
    return MCC_OK;
}

mcc_status mcc_blob_verify(const void *blob, size_t blob_bytes)
{
    const uint8_t *b = blob;
    const mcc_status status = check_header(b, blob_bytes);
    if (status != MCC_OK) {
        return status;
    }
    if (mcc_crc32(0u, &b[MCC_BLOB_HEADER_BYTES], read_u32(&b[MCC_BLOB_OFF_BLOB_BYTES]) - MCC_BLOB_HEADER_BYTES) !=
        read_u32(&b[MCC_BLOB_OFF_PAYLOAD_CRC])) {
        return MCC_E_PAYLOAD;
    }
    return MCC_OK;
}

#ifndef MCC_NO_DIRECTORY

/* Fixed part of a directory entry: u32 offset, u32 bytes, u8 dtype, u8 rank, u16 name bytes. */
#define ENTRY_BYTES 12u

static uint32_t read_u16(const uint8_t *b)
{
    return (uint32_t)b[0] | ((uint32_t)b[1] << 8);
}

mcc_status mcc_blob_dir_open(const void *blob, size_t blob_bytes, mcc_blob_dir *dir)
{
    const uint8_t *b = blob;
    mcc_status status = MCC_E_NULL;
    if (dir != NULL) {
        status = check_header(b, blob_bytes);
        if (status == MCC_OK) {
            dir->blob = b;
            dir->next = read_u32(&b[MCC_BLOB_OFF_DIRECTORY_OFFSET]);
            dir->end = dir->next + read_u32(&b[MCC_BLOB_OFF_DIRECTORY_BYTES]);
        }
    }
    return status;
}

mcc_status mcc_blob_dir_next(mcc_blob_dir *dir, mcc_blob_tensor *t)
{
    const uint8_t *b;
    const uint8_t *e;
    uint32_t left;
    uint32_t payload_bytes;
    uint32_t name_at;
    uint32_t name_end;
    uint32_t used;
    if ((dir == NULL) || (t == NULL)) {
        return MCC_E_NULL;
    }
    left = dir->end - dir->next;
    if (left == 0u) {
        return MCC_END;
    }
    b = dir->blob;
    e = &b[dir->next];
    if (left < ENTRY_BYTES) {
        return MCC_E_DIRECTORY;
    }
    t->offset = read_u32(&e[0]);
    t->bytes = read_u32(&e[4]);
    t->rank = e[9];
    name_at = ENTRY_BYTES + (4u * t->rank);
    name_end = name_at + read_u16(&e[10]);
    used = ((name_end / 4u) + 1u) * 4u; /* at least one zero ends the name */
    /*@ assert name: ENTRY_BYTES + 4 * t->rank == name_at <= name_end <= 66567; */
    /*@ assert used: name_end < used <= name_end + 4; */
    payload_bytes = read_u32(&b[MCC_BLOB_OFF_PAYLOAD_BYTES]);
    if ((used > left) || (e[name_end] != 0u) || (t->offset > payload_bytes) ||
        (t->bytes > (payload_bytes - t->offset)) || (e[8] < (uint8_t)MCC_F32) || (e[8] > (uint8_t)MCC_BOOL)) {
        return MCC_E_DIRECTORY;
    }
    t->dtype = (mcc_dtype)e[8];
    t->name = (const char *)&e[name_at];
    t->data = &b[read_u32(&b[MCC_BLOB_OFF_PAYLOAD_OFFSET]) + t->offset];
    t->dims = &e[ENTRY_BYTES];
    /*@ assert dims: ENTRY_BYTES + 4 * t->rank <= left; */
    dir->next += used;
    return MCC_OK;
}

uint32_t mcc_blob_dim(const mcc_blob_tensor *t, uint32_t axis)
{
    return (axis < t->rank) ? read_u32(&t->dims[4u * axis]) : 1u;
}

#endif

#ifndef MCC_NO_STATUS_TEXT

const char *mcc_status_text(mcc_status status)
{
    /* One string and a walk: a table of pointers would cost 56 bytes and relocations. */
    static const char text[] = "ok\0"
                               "null pointer\0"
                               "misaligned\0"
                               "wrong size\0"
                               "not a blob\0"
                               "format version\0"
                               "byte order\0"
                               "header damaged\0"
                               "another program\0"
                               "payload damaged\0"
                               "bad directory\0"
                               "index out of range\0"
                               "extent over bound\0"
                               "end\0"
                               "too many turns\0"
                               "wrong processor\0"
                               "unknown";
    const uint32_t known = (uint32_t)MCC_E_TARGET + 1u;
    uint32_t skip = ((uint32_t)status < known) ? (uint32_t)status : known;
    uint32_t at = 0u;
    while (skip > 0u) {
        if (text[at] == '\0') {
            skip--;
        }
        at++;
    }
    return &text[at];
}

#endif
