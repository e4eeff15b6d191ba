/* SPDX-License-Identifier: 0BSD */
/* board.h - what a program on an emulated board has instead of an operating system: the streams of the emulator by
 * semihosting, memory that is given out once, a stack that is watched. start_*.S calls board_main. */
#ifndef MCC_BOARD_H
#define MCC_BOARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads exactly `bytes` bytes of the standard input; false where it ends before. */
bool board_receive(void *to, size_t bytes);

/* Writes to the standard output. */
void board_send(const void *from, size_t bytes);

/* `bytes` bytes of the board's memory, at a multiple of 16; they are never given back. Ends the program where there are
 * no more. */
void *board_memory(size_t bytes);

/* What `function` answers for `argument`. It runs on a stack of its own, which is filled with a pattern before;
 * instructions are counted from its first to its last. */
int32_t board_run(int32_t (*function)(const void *), const void *argument);

/* Bytes of that stack, and of what is below it, that the last board_run has touched. */
uint32_t board_stack_used(void);

/* What the clock of the processor has advanced during the last board_run, 0: more than it can tell; and during a loop of
 * `BOARD_KNOWN` instructions, which says how fast it is. Where the emulator's time goes by instructions (-icount), so
 * does the clock. */
enum { BOARD_KNOWN = 1 << 20 };
uint64_t board_run_ticks(void);
uint64_t board_known_ticks(void);

/* Writes a line `text` and, in hexadecimal, `value` to the standard error; ends the program with a status of 2. */
void board_fail(const char *text, uint32_t value);

/* Ends the program. */
void board_exit(int32_t status);

/* One call of the host, by the numbers of Arm's semihosting specification. */
intptr_t board_host(intptr_t operation, const void *arguments);

#endif
