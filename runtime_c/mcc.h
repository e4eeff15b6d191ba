/* SPDX-License-Identifier: 0BSD
 *
 * mcc.h - the run-time support of networks compiled by mccompile. This header is its manual.
 *
 * A compiled network is `<model>.h`, `<model>.c`, this header, `mcc.c`, and a weights blob (`<model>.mcb`, or
 * `<model>_blob.c` as a C array). Nothing here allocates, prints, recurses, keeps state or copies the blob: the weights
 * are read in place, from flash if that is where they are. docs/blob-format.md specifies the blob byte by byte.
 *
 *     kws_t net;
 *     mcc_status st = mcc_blob_verify(blob, blob_bytes);     reads every byte: once, after flashing
 *     st = kws_init(&net, &arena, blob, blob_bytes);         reads the 64-byte header: at each start
 *     if (st != MCC_OK) { puts(mcc_status_text(st)); }
 *
 * Macros you may define, in all files of the build alike:
 *
 *     MCC_HOOKS_HEADER     header to include for your own hooks: -DMCC_HOOKS_HEADER='"my_hooks.h"' (see the end)
 *     MCC_NO_DIRECTORY     drops the tensor directory reader, which only tools need
 *     MCC_NO_STATUS_TEXT   drops mcc_status_text() and its strings
 *     MCC_MISRA            empties MCC_RESTRICT (MISRA C:2012 rule 8.14)
 *     MCC_NO_ASM           leaves assembler out: C and intrinsics mean the same
 *     MCC_CODE_SECTION     section for kernels and <model>_run: -DMCC_CODE_SECTION='".itcm"'
 *     MCC_BLOB_SECTION     section for the blob as a C array
 *     MCC_ARENA_SECTION    section for arenas that are defined with MCC_PLACE_ARENA
 *
 * Thread safety: every function depends on its arguments alone. Strings and pointers given out point into the blob or
 * into constants; nothing is to be freed.
 */
#ifndef MCC_H
#define MCC_H

#include <stddef.h>
#include <stdint.h>

#ifdef MCC_HOOKS_HEADER
#include MCC_HOOKS_HEADER
#endif

/* Raised when a generated file of an older or newer compiler no longer fits this header. Generated headers say
 *     #if MCC_ABI_VERSION != 3
 *     #error "..."
 *     #endif                                                                                                        */
#define MCC_ABI_VERSION 3

/* ---- The C language, evened out ---------------------------------------------------------------------------------- */

/* On pointers that the memory plan keeps disjoint. */
#ifndef MCC_RESTRICT
#if defined(__cplusplus) || defined(MCC_MISRA)
#define MCC_RESTRICT
#elif defined(_MSC_VER)
#define MCC_RESTRICT __restrict
#else
#define MCC_RESTRICT restrict
#endif
#endif

/* Alignment of an object or a struct member in bytes, a power of two. It stands first in the declaration, which is the
 * one place all spellings share:    MCC_ALIGNED(16) static const uint32_t kws_blob[6124] = {...};
 * Where the compiler offers nothing it is empty; then place the objects by hand, and <model>_init answers MCC_E_ALIGN
 * if they are not where they should be. Define it yourself before this header for any other compiler. */
#ifndef MCC_ALIGNED
#if defined(__GNUC__) || defined(__clang__) || defined(__ICCARM__) || defined(__ARMCC_VERSION)
#define MCC_ALIGNED(n) __attribute__((aligned(n)))
#elif defined(_MSC_VER)
#define MCC_ALIGNED(n) __declspec(align(n))
#elif defined(__cplusplus) && (__cplusplus >= 201103L)
#define MCC_ALIGNED(n) alignas(n)
#elif defined(__STDC_VERSION__) && (__STDC_VERSION__ >= 201112L)
#define MCC_ALIGNED(n) _Alignas(n)
#else
#define MCC_ALIGNED(n)
#endif
#endif

/* An object or a function in a section of the linker's, which `name` is the string of; empty unless it was asked for:
 *     MCC_PLACE_CODE   stands before every function of a generated file that a run is made of
 *     MCC_PLACE_BLOB   stands before the blob that --embed writes
 *     MCC_PLACE_ARENA  is for you to write:    MCC_PLACE_ARENA static kws_arena arena;
 * An arena in several memories has a macro for each, in the header of the network: MCC_PLACE_ARENA_DTCM. */
#ifndef MCC_IN_SECTION
#if defined(__IAR_SYSTEMS_ICC__)
#define MCC_PRAGMA_(text) _Pragma(#text)
#define MCC_IN_SECTION(name) MCC_PRAGMA_(location=name)
#elif defined(__GNUC__) || defined(__clang__) || defined(__ARMCC_VERSION)
#define MCC_IN_SECTION(name) __attribute__((section(name)))
#elif defined(MCC_CODE_SECTION) || defined(MCC_BLOB_SECTION) || defined(MCC_ARENA_SECTION)
#error "how does this compiler place in sections? Define MCC_IN_SECTION(name) for it"
#else /* where only a network's header asks for a section, this is the message */
#define MCC_IN_SECTION(name) extern const char define_MCC_IN_SECTION_for_this_compiler[-1];
#endif
#endif
#ifdef __clang__ /* which warns of inline functions that only the other branch of an #if calls */
#define MCC_MAY_BE_UNUSED __attribute__((unused))
#else
#define MCC_MAY_BE_UNUSED
#endif
#ifdef MCC_CODE_SECTION
#define MCC_PLACE_CODE MCC_IN_SECTION(MCC_CODE_SECTION) MCC_MAY_BE_UNUSED
#else
#define MCC_PLACE_CODE MCC_MAY_BE_UNUSED
#endif
#ifdef MCC_BLOB_SECTION
#define MCC_PLACE_BLOB MCC_IN_SECTION(MCC_BLOB_SECTION)
#else
#define MCC_PLACE_BLOB
#endif
#ifdef MCC_ARENA_SECTION
#define MCC_PLACE_ARENA MCC_IN_SECTION(MCC_ARENA_SECTION)
#else
#define MCC_PLACE_ARENA
#endif

/* A check at compile time, at file scope, in C99: MCC_STATIC_ASSERT(kws_arena_size, sizeof(kws_arena) == 8492u);
 * `name` becomes an identifier that is declared and never used. */
#define MCC_STATIC_ASSERT(name, cond) extern const char (name)[(cond) ? 1 : -1]

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Status codes ------------------------------------------------------------------------------------------------ */

/* The numbers are stable: they may be logged, sent, compared across versions. */
typedef enum mcc_status {
    MCC_OK = 0,
    MCC_E_NULL = 1,       /* a pointer is NULL */
    MCC_E_ALIGN = 2,      /* arena or blob is not at the alignment that the target needs */
    MCC_E_SIZE = 3,       /* blob cut short, or the sizes in its header do not fit together or not the program */
    MCC_E_MAGIC = 4,      /* these bytes are not a blob (flash erased, wrong address) */
    MCC_E_VERSION = 5,    /* a blob of another format version */
    MCC_E_ENDIAN = 6,     /* blob and processor differ in byte order; blobs are little-endian */
    MCC_E_HEADER = 7,     /* header damaged (CRC) */
    MCC_E_ID = 8,         /* a sound blob, but of another program: compile and flash the two together */
    MCC_E_PAYLOAD = 9,    /* something behind the header is damaged (CRC): flash again */
    MCC_E_DIRECTORY = 10, /* the tensor directory is malformed */
    MCC_E_INDEX = 11,     /* an index in the input data is out of range (Gather, Scatter, OneHot) */
    MCC_E_DIM = 12,       /* a run-time extent exceeds the bound that memory was planned for */
    MCC_END = 13,         /* no error: the iteration is over */
    MCC_E_LIMIT = 14,     /* a loop would make more turns than memory was planned for */
    MCC_E_TARGET = 15     /* this processor runs none of the targets that the program was compiled for */
} mcc_status;

#ifndef MCC_NO_STATUS_TEXT
/* A few words in English on `status`, never NULL, also for numbers that are no status. */
const char *mcc_status_text(mcc_status status);
#endif

/* ---- Tensors ----------------------------------------------------------------------------------------------------- */

/* Element types. The numbers are those stored in blobs. f16 is IEEE binary16 kept in uint16_t, a bool is a byte 0/1. */
typedef enum mcc_dtype {
    MCC_F32 = 1,
    MCC_F16 = 2,
    MCC_F64 = 3,
    MCC_I8 = 4,
    MCC_U8 = 5,
    MCC_I16 = 6,
    MCC_U16 = 7,
    MCC_I32 = 8,
    MCC_U32 = 9,
    MCC_I64 = 10,
    MCC_U64 = 11,
    MCC_BOOL = 12
} mcc_dtype;

/* Describes an input or output of a network; generated code has constant tables of these. */
typedef struct mcc_tensor {
    const char *name;     /* the ONNX name, UTF-8 */
    const uint32_t *dims; /* `rank` extents, outermost first; for run-time extents the bound */
    size_t bytes;         /* of the elements, for the extents in dims */
    uint32_t rank;        /* 0 is a scalar */
    mcc_dtype dtype;
} mcc_tensor;

/* ---- The weights blob -------------------------------------------------------------------------------------------- */

#define MCC_BLOB_FORMAT_VERSION 1u
#define MCC_BLOB_HEADER_BYTES 64u
#define MCC_BLOB_ID_BYTES 16u
#define MCC_BLOB_MAGIC 0x4243434Du       /* the bytes 'M' 'C' 'C' 'B', read as little-endian */
#define MCC_BLOB_ENDIAN_MARK 0x01020304u /* the bytes 04 03 02 01 */

/* Where the header's fields lie; each is a little-endian uint32_t, but the id. */
#define MCC_BLOB_OFF_MAGIC 0u
#define MCC_BLOB_OFF_FORMAT_VERSION 4u
#define MCC_BLOB_OFF_ENDIAN_MARK 8u
#define MCC_BLOB_OFF_HEADER_BYTES 12u
#define MCC_BLOB_OFF_BLOB_BYTES 16u
#define MCC_BLOB_OFF_ALIGNMENT 20u
#define MCC_BLOB_OFF_PAYLOAD_OFFSET 24u
#define MCC_BLOB_OFF_PAYLOAD_BYTES 28u
#define MCC_BLOB_OFF_DIRECTORY_OFFSET 32u
#define MCC_BLOB_OFF_DIRECTORY_BYTES 36u
#define MCC_BLOB_OFF_ID 40u
#define MCC_BLOB_OFF_PAYLOAD_CRC 56u
#define MCC_BLOB_OFF_HEADER_CRC 60u

/* What a generated program knows about its blob. */
typedef struct mcc_blob_expect {
    uint8_t id[16];         /* hash of the program and of its section table */
    uint32_t payload_bytes; /* sizeof(<model>_weights) */
    uint32_t align;         /* of the blob in memory and of its payload, a power of two */
} mcc_blob_expect;

/* Checks, from the header alone, that `blob` is a whole blob of this very program, and only then gives the address of
 * the weights in *payload (NULL otherwise). <model>_init calls it. In this order: NULL pointers, alignment of `blob`,
 * blob_bytes, magic, format version, byte order, header CRC, sizes and offsets, id, payload size, payload alignment.
 *   blob        any address; must be a multiple of expect->align
 *   blob_bytes  readable bytes at `blob`; may be more than the blob has (a flash partition)
 * Returns MCC_OK, MCC_E_NULL, _ALIGN, _SIZE, _MAGIC, _VERSION, _ENDIAN, _HEADER or _ID. */
mcc_status mcc_blob_check(const void *blob, size_t blob_bytes, const mcc_blob_expect *expect, const void **payload);

/* Checks the header as above (alignment and id apart) and the CRC of every byte behind it. For after flashing, not for
 * each start: 11 instructions per byte on a Cortex-M4. `blob` may have any alignment. The CRC finds damage, not attack:
 * where the blob may come from an enemy, sign it as you sign the firmware.
 * Returns what mcc_blob_check returns, but _ALIGN and _ID, and MCC_E_PAYLOAD. */
mcc_status mcc_blob_verify(const void *blob, size_t blob_bytes);

/* CRC-32 (ISO-HDLC, as in zip, png and zlib) of `bytes` bytes, going on from `crc`, which is 0 at the beginning; for
 * those who receive a blob in pieces. With bytes == 0 `data` is not read. */
uint32_t mcc_crc32(uint32_t crc, const void *data, size_t bytes);

/* MCC_OK, or MCC_E_NULL, or MCC_E_ALIGN if `p` is not a multiple of `align` (a power of two). */
mcc_status mcc_pointer_check(const void *p, uint32_t align);

#ifndef MCC_NO_DIRECTORY
/* One tensor of a blob's directory. */
typedef struct mcc_blob_tensor {
    const char *name;    /* UTF-8, zero-terminated, in the blob */
    const void *data;    /* first byte, in the blob's payload */
    uint32_t offset;     /* of the first byte from the payload's beginning */
    uint32_t bytes;      /* may exceed the product of the extents: packing pads */
    uint32_t rank;       /* 0 to 255 */
    mcc_dtype dtype;     /* one of the enumerators */
    const uint8_t *dims; /* private: ask mcc_blob_dim() */
} mcc_blob_tensor;

/* Place in a directory; private. */
typedef struct mcc_blob_dir {
    const uint8_t *blob;
    uint32_t next;
    uint32_t end;
} mcc_blob_dir;

/* Goes through the tensors of a blob:
 *     st = mcc_blob_dir_open(blob, blob_bytes, &dir);
 *     while (st == MCC_OK) { st = mcc_blob_dir_next(&dir, &t); if (st == MCC_OK) {...} }
 *     ok = (st == MCC_END);
 * Every access is inside the blob, whatever the bytes say. dir_open returns what mcc_blob_verify returns, without
 * reading the payload; dir_next returns MCC_OK, MCC_END, MCC_E_NULL or MCC_E_DIRECTORY, and *t holds a tensor after
 * MCC_OK only. */
mcc_status mcc_blob_dir_open(const void *blob, size_t blob_bytes, mcc_blob_dir *dir);
mcc_status mcc_blob_dir_next(mcc_blob_dir *dir, mcc_blob_tensor *t);

/* Extent of axis 0 <= axis < t->rank; 1 for an axis that is not there. */
uint32_t mcc_blob_dim(const mcc_blob_tensor *t, uint32_t axis);
#endif

#ifdef __cplusplus
}
#endif

/* ---- Hooks ------------------------------------------------------------------------------------------------------- */

/* Generated programs call these around each step; a step's number is its `@n` in the comments and in report.json.
 * What you do not define vanishes, arguments included. Define the ones you want in a header of your own and name it:
 *
 *     cc -DMCC_HOOKS_HEADER='"my_hooks.h"' ...
 *
 * my_hooks.h:
 *     void my_trace(unsigned step, const void *data, size_t bytes);
 *     #define MCC_TRACE(step, ptr, bytes) my_trace((step), (ptr), (bytes))
 *     #define MCC_PROFILE_BEGIN(step)     (my_cycles[(step)] -= DWT->CYCCNT)
 *     #define MCC_PROFILE_END(step)       (my_cycles[(step)] += DWT->CYCCNT)
 *
 * MCC_TRACE(step, ptr, bytes)  after a step, once per result: its address and size; step is a number, or where steps
 *                              of a long program are a loop, an expression
 * MCC_PROFILE_BEGIN(step)      before a step
 * MCC_PROFILE_END(step)        after a step, before its MCC_TRACE
 * Each is used as a statement, followed by a semicolon. */
#ifndef MCC_TRACE
#define MCC_TRACE(step, ptr, bytes) ((void)0)
#endif
#ifndef MCC_PROFILE_BEGIN
#define MCC_PROFILE_BEGIN(step) ((void)0)
#endif
#ifndef MCC_PROFILE_END
#define MCC_PROFILE_END(step) ((void)0)
#endif

/* What a generated program says for each step: the call of a kernel between the hooks. `result` is the array that the
 * kernel writes, or with _TO a pointer to so many bytes; further ones follow as MCC_TRACE. A kernel that checks its
 * data answers a status, which `status` takes; where it is not MCC_OK nothing is traced, and the program ends behind
 * the macro. */
#define MCC_STEP(step, call, result) MCC_STEP_TO(step, call, result, sizeof(result))

#define MCC_STEP_TO(step, call, result, bytes) \
    do { \
        MCC_PROFILE_BEGIN(step); \
        (call); \
        MCC_PROFILE_END(step); \
        MCC_TRACE(step, (result), (bytes)); \
    } while (0)

#define MCC_STATUS_STEP(step, status, call, result) MCC_STATUS_STEP_TO(step, status, call, result, sizeof(result))

#define MCC_STATUS_STEP_TO(step, status, call, result, bytes) \
    do { \
        MCC_PROFILE_BEGIN(step); \
        (status) = (call); \
        MCC_PROFILE_END(step); \
        if ((status) == MCC_OK) { \
            MCC_TRACE(step, (result), (bytes)); \
        } \
    } while (0)

#endif /* MCC_H */
