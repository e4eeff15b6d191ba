/* SPDX-License-Identifier: 0BSD */
/* count_plugin.c - an instruction counter for QEMU's TCG: how often each instruction was executed, by the step of a network
 * that was running. Built for the machine that emulates, and loaded with
 *     -plugin count.so,marks=FILE,out=FILE
 * Each line of `marks` is an address (hexadecimal) and the slot that counts from the instruction there on; slot 0 counts
 * nothing. Whenever it turns to slot 0 the counter writes to `out` a line `run` and lines of
 *     slot address executions taken
 * and starts anew. `taken` is how often the next instruction executed was not the one that follows in memory.
 *
 * Counted are translation blocks, which is all that versions 1 to 4 of the plugin interface have in common. No header of
 * QEMU is needed: its functions are declared here. */
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t plugin_id;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
enum { NO_REGISTERS = 0 };

int qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv);
void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id id, void (*translated)(plugin_id, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_cb(
    struct qemu_plugin_tb *tb, void (*executed)(unsigned, void *), int flags, void *data);
void qemu_plugin_register_vcpu_insn_exec_cb(
    struct qemu_plugin_insn *insn, void (*executed)(unsigned, void *), int flags, void *data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);

#ifndef PLUGIN_VERSION
#define PLUGIN_VERSION 1
#endif
#define EXPORT __attribute__((visibility("default")))
EXPORT int qemu_plugin_version = PLUGIN_VERSION;

typedef struct mark {
    uint64_t address;
    unsigned slot;
} mark;

/* Of a block by slot: executions, and how often it was left for another place than what follows it. */
typedef struct tally {
    uint64_t executions;
    uint64_t taken;
} tally;

/* A mark inside of a block: what begins in one slot goes on in another one from instruction `index` on. */
typedef struct turn {
    struct turn *next;
    size_t index;
    unsigned slot;
    uint64_t *from; /* by the slot that ended */
} turn;

typedef struct block {
    struct block *next;
    turn *turns;
    uint64_t end;
    size_t count;
    uint64_t *addresses;
    tally *tallies;
} block;

static mark *marks;
static size_t mark_count;
static unsigned slots = 1;
static block *blocks;
static block *last;
static unsigned current;
static FILE *out;

static void *zeros(size_t count, size_t size)
{
    void *const memory = calloc(count ? count : 1u, size);
    if (memory == NULL) {
        (void)fprintf(stderr, "the instruction counter has no memory\n");
        exit(2);
    }
    return memory;
}

static void write_block(const block *b, uint64_t *counts)
{
    for (unsigned slot = 1; slot < slots; ++slot) {
        for (size_t i = 0; i < b->count; ++i) {
            counts[i] = b->tallies[slot].executions;
        }
        for (const turn *t = b->turns; t != NULL; t = t->next) {
            for (size_t i = t->index; i < b->count; ++i) {
                counts[i] -= t->from[slot];
            }
            for (unsigned from = 0; (t->slot == slot) && (from < slots); ++from) {
                for (size_t i = t->index; i < b->count; ++i) {
                    counts[i] += t->from[from];
                }
            }
        }
        for (size_t i = 0; i < b->count; ++i) {
            const uint64_t taken = (i + 1u == b->count) ? b->tallies[slot].taken : 0u;
            if ((counts[i] != 0u) || (taken != 0u)) {
                (void)fprintf(out, "%u %" PRIx64 " %" PRIu64 " %" PRIu64 "\n", slot, b->addresses[i], counts[i], taken);
            }
        }
    }
}

static void write_counts(void)
{
    size_t longest = 0;

    (void)fprintf(out, "run\n");
    for (const block *b = blocks; b != NULL; b = b->next) {
        longest = (b->count > longest) ? b->count : longest;
    }
    uint64_t *const counts = zeros(longest, sizeof(uint64_t));
    for (const block *b = blocks; b != NULL; b = b->next) {
        write_block(b, counts);
        (void)memset(b->tallies, 0, slots * sizeof(tally));
        for (const turn *t = b->turns; t != NULL; t = t->next) {
            (void)memset(t->from, 0, slots * sizeof(uint64_t));
        }
    }
    free(counts);
    (void)fprintf(out, "end\n");
    (void)fflush(out);
}

static void on_block(unsigned cpu, void *data)
{
    block *const b = data;

    (void)cpu;
    /* QEMU 7.2 takes two bytes too many for a Thumb instruction before one that crosses a page, as it has looked at them;
     * and nothing jumps into the middle of itself. */
    if ((last != NULL) && (last->end != b->addresses[0]) && (last->end - 2u != b->addresses[0])) {
        last->tallies[current].taken += 1u;
    }
    b->tallies[current].executions += 1u;
    last = b;
}

static void on_mark(unsigned cpu, void *data)
{
    turn *const t = data;
    const unsigned before = current;

    (void)cpu;
    t->from[before] += 1u;
    current = t->slot;
    if ((current == 0u) && (before != 0u)) {
        write_counts();
    }
}

static const mark *find_mark(uint64_t address)
{
    for (size_t i = 0; i < mark_count; ++i) {
        if (marks[i].address == address) {
            return &marks[i];
        }
    }
    return NULL;
}

static void on_translation(plugin_id id, struct qemu_plugin_tb *tb)
{
    const size_t count = qemu_plugin_tb_n_insns(tb);
    block *const b = zeros(1, sizeof(block));

    (void)id;
    b->count = count;
    b->addresses = zeros(count, sizeof(uint64_t));
    b->tallies = zeros(slots, sizeof(tally));
    b->next = blocks;
    blocks = b;
    qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block, NO_REGISTERS, b);
    for (size_t i = 0; i < count; ++i) {
        struct qemu_plugin_insn *const insn = qemu_plugin_tb_get_insn(tb, i);
        const uint64_t address = qemu_plugin_insn_vaddr(insn);
        const mark *const found = find_mark(address);

        b->addresses[i] = address;
        b->end = address + qemu_plugin_insn_size(insn);
        if (found != NULL) {
            turn *const t = zeros(1, sizeof(turn));
            t->index = i;
            t->slot = found->slot;
            t->from = zeros(slots, sizeof(uint64_t));
            t->next = b->turns;
            b->turns = t;
            qemu_plugin_register_vcpu_insn_exec_cb(insn, on_mark, NO_REGISTERS, t);
        }
    }
}

static bool read_marks(const char *path)
{
    FILE *const file = fopen(path, "r");
    mark m = { 0, 0 };

    if (file == NULL) {
        return false;
    }
    while (fscanf(file, "%" SCNx64 " %u", &m.address, &m.slot) == 2) {
        mark *const more = realloc(marks, (mark_count + 1u) * sizeof(mark));
        if (more == NULL) {
            (void)fclose(file);
            return false;
        }
        marks = more;
        marks[mark_count] = m;
        mark_count += 1u;
        slots = (m.slot >= slots) ? m.slot + 1u : slots;
    }
    (void)fclose(file);
    return true;
}

EXPORT int qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv)
{
    (void)info;
    for (int i = 0; i < argc; ++i) {
        if (strncmp(argv[i], "marks=", 6) == 0) {
            if (!read_marks(argv[i] + 6)) {
                return -1;
            }
        } else if (strncmp(argv[i], "out=", 4) == 0) {
            out = fopen(argv[i] + 4, "w");
        } else {
            return -1;
        }
    }
    if (out == NULL) {
        return -1;
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
    return 0;
}
