/* SPDX-License-Identifier: 0BSD */
/* Runs a generated network where no stray access goes unseen, for tests. "harness_net.h", made for one network, has
 *     NET(suffix)         the network's name with a suffix, NET_ALIGN
 *     INPUTS(X) OUTPUTS(X)  X(identifier) for each input and output
 *     MEMBERS(X)          X(member) for each tensor of the arena
 * harness PLACE blob inputs outputs
 *     PLACE   low: arena and blob begin behind a page that may not be touched; high: they end before one;
 *             odd: both are at an odd multiple of the alignment
 *     inputs  for each run the inputs' bytes one after the other; outputs likewise are written
 * harness refuse blob other checks that init refuses what is misaligned, cut short, another program's, or NULL. */
#define _DEFAULT_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "harness_net.h"

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifdef SANITIZED
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
#endif

#define PAGE ((size_t)4096)
#define MUST(condition) must((condition), #condition, __LINE__)

static void must(int good, const char *what, int line)
{
    if (!good) {
        fprintf(stderr, "harness: line %d: %s\n", line, what);
        exit(2);
    }
}

/* `bytes` of memory at a multiple of `align`, with a forbidden page right before or right behind where asked. */
static unsigned char *room(const char *place, size_t bytes, size_t align)
{
    const size_t body = (bytes + 3 * align + PAGE - 1) / PAGE * PAGE;
    unsigned char *base = mmap(NULL, body + 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned char *at;
    MUST(base != MAP_FAILED);
    MUST(mprotect(base, PAGE, PROT_NONE) == 0 && mprotect(base + PAGE + body, PAGE, PROT_NONE) == 0);
    base += PAGE;
    if (strcmp(place, "high") == 0) {
        at = base + (body - bytes) / align * align;
    } else if (strcmp(place, "odd") == 0) {
        at = base + align;
        MUST((size_t)at % (2 * align) == align);
    } else {
        at = base;
    }
    memset(base, 0xA5, body);
    ASAN_POISON_MEMORY_REGION(base, body);
    ASAN_UNPOISON_MEMORY_REGION(at, bytes);
    return at;
}

static unsigned char *read_file(const char *path, const char *place, size_t align, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    unsigned char *at;
    MUST(file != NULL && fseek(file, 0, SEEK_END) == 0);
    *bytes = (size_t)ftell(file);
    rewind(file);
    at = room(place, *bytes, align);
    MUST(fread(at, 1, *bytes, file) == *bytes);
    fclose(file);
    return at;
}

/* 0xFF everywhere, as after a reset that cleared nothing; then only the tensors may be touched. */
static void poison(NET(_arena) *arena)
{
    ASAN_UNPOISON_MEMORY_REGION(arena, sizeof *arena);
    memset((void *)arena, 0xFF, sizeof *arena);
    ASAN_POISON_MEMORY_REGION(arena, sizeof *arena);
#define UNPOISON(member) ASAN_UNPOISON_MEMORY_REGION(arena->member.v, sizeof arena->member.v);
    MEMBERS(UNPOISON)
}

static void run(const NET(_t) *net, FILE *in, FILE *out)
{
    const mcc_tensor *t = NET(_inputs);
#define GET(id) MUST(fread(NET(_input_##id)(net), 1, t->bytes, in) == t->bytes); ++t;
    INPUTS(GET)
    MUST(NET(_run)(net) == MCC_OK);
    t = NET(_outputs);
#define PUT(id) MUST(fwrite(NET(_output_##id)(net), 1, t->bytes, out) == t->bytes); ++t;
    OUTPUTS(PUT)
    MUST(t == NET(_outputs) + sizeof NET(_outputs) / sizeof NET(_outputs)[0]);
}

static int refuse(const char *blob_path, const char *other_path)
{
    size_t bytes, other_bytes, arena_bytes = sizeof(NET(_arena));
    unsigned char *blob = read_file(blob_path, "low", NET_ALIGN, &bytes);
    unsigned char *other = read_file(other_path, "low", NET_ALIGN, &other_bytes);
    unsigned char *space = room("low", arena_bytes + bytes + 2 * NET_ALIGN, NET_ALIGN);
    void *arena = space, *beside = space + NET_ALIGN / 2;
    NET(_t) net = {NULL, NULL};
    MUST(NET(_init)(&net, beside, blob, bytes) == MCC_E_ALIGN);
    MUST(NET(_init)(&net, NULL, blob, bytes) == MCC_E_NULL);
    MUST(NET(_init)(NULL, arena, blob, bytes) == MCC_E_NULL);
    MUST(NET(_init)(&net, arena, NULL, bytes) == MCC_E_NULL);
    MUST(NET(_init)(&net, arena, blob, bytes - 1) == MCC_E_SIZE);
    MUST(NET(_init)(&net, arena, blob, 0) == MCC_E_SIZE);
    MUST(NET(_init)(&net, arena, other, other_bytes) == MCC_E_ID);
    memcpy(beside, blob, bytes);
    MUST(NET(_init)(&net, arena, beside, bytes) == MCC_E_ALIGN);
    blob[0] ^= 1;
    MUST(NET(_init)(&net, arena, blob, bytes) == MCC_E_MAGIC);
    blob[0] ^= 1;
    MUST(net.arena == NULL && net.weights == NULL);
    MUST(NET(_init)(&net, arena, blob, bytes) == MCC_OK && net.arena == arena);
    return 0;
}

int main(int argc, char **argv)
{
    size_t blob_bytes;
    NET(_t) net;
    void *arena;
    unsigned char *blob;
    FILE *in, *out;
    int next;
    if (argc == 4 && strcmp(argv[1], "refuse") == 0) {
        return refuse(argv[2], argv[3]);
    }
    MUST(argc == 5);
    blob = read_file(argv[2], argv[1], NET_ALIGN, &blob_bytes);
    arena = room(argv[1], sizeof(NET(_arena)), NET_ALIGN);
    in = fopen(argv[3], "rb");
    out = fopen(argv[4], "wb");
    MUST(in != NULL && out != NULL);
    MUST(NET(_init)(&net, arena, blob, blob_bytes) == MCC_OK);
    poison(net.arena);
    while ((next = getc(in)) != EOF) {
        ungetc(next, in);
        run(&net, in, out);
    }
    fclose(in);
    return fclose(out);
}
