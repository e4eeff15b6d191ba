/* SPDX-License-Identifier: 0BSD */
/* board.c - see board.h. Symbols with two underscores come from board.ld. */
#include "board.h"

enum { SYS_OPEN = 0x01, SYS_WRITE = 0x05, SYS_READ = 0x06, SYS_EXIT_EXTENDED = 0x20 };
enum { STOPPED_BY_EXIT = 0x20026 };
enum { MODE_READ = 0, MODE_WRITE = 4, MODE_APPEND = 8 };

#define PAINT 0x5AFE57ACu

extern uint32_t __data_load[], __data_start[], __data_end[], __bss_start[], __bss_end[];
extern uint32_t __stack_start[], __stack_end[];
extern uint8_t __ram_start[], __ram_end[], __bulk_start[], __bulk_end[];

int main(int argc, char **argv);
void board_close_library(void);
void board_main(void);
void board_spin(uint32_t turns);
uint64_t board_cycles(void);
void board_fault(const uint32_t *main_stack, const uint32_t *process_stack, uint32_t link);
void board_trap(uint32_t cause, uint32_t place);
int32_t board_call(int32_t (*function)(const void *), const void *argument, uint32_t *stack_end);

intptr_t board_host(intptr_t operation, const void *arguments)
{
#if defined(__riscv)
    register intptr_t a0 __asm__("a0") = operation;
    register const void *a1 __asm__("a1") = arguments;

    /* The emulator looks for these three, not compressed and in one page. */
    __asm__ volatile(".option push\n\t"
                     ".option norvc\n\t"
                     ".balign 16\n\t"
                     "slli zero, zero, 0x1f\n\t"
                     "ebreak\n\t"
                     "srai zero, zero, 7\n\t"
                     ".option pop"
                     : "+r"(a0)
                     : "r"(a1)
                     : "memory");
    return a0;
#else
    register intptr_t r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = arguments;

    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
#endif
}

/* A handle of one of the emulator's own streams: the name is the specification's. */
static intptr_t stream(uintptr_t mode)
{
    const uintptr_t arguments[3] = { (uintptr_t) ":tt", mode, 3u };
    return board_host(SYS_OPEN, arguments);
}

void board_exit(int32_t status)
{
    const uintptr_t arguments[2] = { STOPPED_BY_EXIT, (uintptr_t)status };

    for (;;) {
        (void)board_host(SYS_EXIT_EXTENDED, arguments);
    }
}

bool board_receive(void *to, size_t bytes)
{
    static intptr_t input;
    uint8_t *at = to;

    if (input == 0) {
        input = stream(MODE_READ);
    }
    while (bytes > 0u) {
        const uintptr_t arguments[3] = { (uintptr_t)input, (uintptr_t)at, bytes };
        const size_t left = (size_t)board_host(SYS_READ, arguments); /* bytes that did not come: a pipe may give some */
        if (left >= bytes) {
            return false;
        }
        at += bytes - left;
        bytes = left;
    }
    return true;
}

static void write_all(intptr_t handle, const void *from, size_t bytes)
{
    const uint8_t *at = from;

    while (bytes > 0u) {
        const uintptr_t arguments[3] = { (uintptr_t)handle, (uintptr_t)at, bytes };
        const size_t left = (size_t)board_host(SYS_WRITE, arguments);
        if (left >= bytes) {
            board_exit(3); /* nobody reads any more */
        }
        at += bytes - left;
        bytes = left;
    }
}

void board_send(const void *from, size_t bytes)
{
    static intptr_t output;

    if (output == 0) {
        output = stream(MODE_WRITE);
    }
    write_all(output, from, bytes);
}

void board_fail(const char *text, uint32_t value)
{
    const intptr_t errors = stream(MODE_APPEND);
    char digits[11] = " 00000000\n";
    size_t length = 0;

    for (int i = 0; i < 8; ++i) {
        digits[8 - i] = "0123456789abcdef"[(value >> (4 * i)) & 15u];
    }
    while (text[length] != '\0') {
        ++length;
    }
    write_all(errors, text, length);
    write_all(errors, digits, 10u);
    board_exit(2);
}

void *board_memory(size_t bytes)
{
    static size_t ram_used;
    static size_t bulk_used;
    const size_t wanted = (bytes + 15u) & ~(size_t)15u;
    uint8_t *found = NULL;

    if (wanted <= (size_t)(__ram_end - __ram_start) - ram_used) {
        found = __ram_start + ram_used;
        ram_used += wanted;
    } else if (wanted <= (size_t)(__bulk_end - __bulk_start) - bulk_used) {
        found = __bulk_start + bulk_used;
        bulk_used += wanted;
    } else {
        board_fail("the board has no memory for so many bytes:", (uint32_t)bytes);
    }
    return found;
}

/* The clock: RISC-V counts cycles in 64 bits; the SysTick of an M-profile core counts 24 bits down to 0, and notes that
 * it has got there. */
static uint64_t begun;
static uint64_t run_ticks;

#if defined(__riscv)
static void clock_start(void)
{
    begun = board_cycles();
}

static uint64_t clock_stop(void)
{
    return board_cycles() - begun;
}
#else
enum { MOST_TICKS = 0xFFFFFF, SYST_ENABLE = 1, SYST_OF_CORE = 4, SYST_WAS_ZERO = 0x10000 };

static volatile uint32_t *const syst = (volatile uint32_t *)0xE000E010u; /* control, reload, now */

static void clock_start(void)
{
    syst[0] = SYST_OF_CORE;
    syst[1] = MOST_TICKS;
    syst[2] = 0u; /* any value empties it; the first tick loads it */
    syst[0] = SYST_OF_CORE | SYST_ENABLE;
    while (syst[2] == 0u) {
    }
    (void)syst[0]; /* forgets that it was zero */
    begun = syst[2];
}

static uint64_t clock_stop(void)
{
    const uint32_t now = syst[2];
    const bool wrapped = (syst[0] & SYST_WAS_ZERO) != 0u;

    syst[0] = SYST_OF_CORE;
    return wrapped ? 0u : begun - now;
}
#endif

int32_t board_run(int32_t (*function)(const void *), const void *argument)
{
    for (uint32_t *at = __stack_start; at < __stack_end; ++at) {
        *at = PAINT;
    }
    clock_start();
    const int32_t status = board_call(function, argument, __stack_end);
    run_ticks = clock_stop();
    return status;
}

uint64_t board_run_ticks(void)
{
    return run_ticks;
}

uint64_t board_known_ticks(void)
{
    clock_start();
    board_spin(BOARD_KNOWN / 2);
    return clock_stop();
}

uint32_t board_stack_used(void)
{
    const uint32_t *at = __stack_start;

    while ((at < __stack_end) && (*at == PAINT)) {
        ++at;
    }
    return (uint32_t)((uintptr_t)__stack_end - (uintptr_t)at);
}

/* Without program.c there is no library to close. */
__attribute__((weak)) void board_close_library(void)
{
}

/* The start: memory as C expects it, then main, which may be one without parameters. */
void board_main(void)
{
    char name[] = "program";
    char *arguments[] = { name, NULL };
    const uint32_t *from = __data_load;

    for (uint32_t *to = __data_start; to < __data_end; ++to) {
        *to = *from++;
    }
    for (uint32_t *to = __bss_start; to < __bss_end; ++to) {
        *to = 0u;
    }
    const int status = main(1, arguments);
    board_close_library();
    board_exit(status);
}

#if defined(__riscv)
void board_trap(uint32_t cause, uint32_t place)
{
    board_fail((cause == 2u) ? "an illegal instruction at" : "a fault of the processor at", place);
}
#else
/* The processor has put r0-r3, r12, lr, pc, xpsr onto the stack that `link` tells of, if there was room. */
void board_fault(const uint32_t *main_stack, const uint32_t *process_stack, uint32_t link)
{
    const volatile uint32_t *const status = (const volatile uint32_t *)0xE000ED28u; /* CFSR */

    if ((*status & 0x1010u) != 0u) { /* STKERR, MSTKERR */
        board_fail("the stack is exhausted, fault status", *status);
    }
    board_fail("a fault of the processor at", ((link & 4u) != 0u) ? process_stack[6] : main_stack[6]);
}
#endif
