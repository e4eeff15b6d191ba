/* SPDX-License-Identifier: 0BSD */
/* Start-up of a Cortex-M4, and UART 0 of the MPS2 board. */
#include "board.h"

#include <stdint.h>
#include <string.h>

#define UART0_DATA (*(volatile uint32_t *)0x40004000u)
#define UART0_STATE (*(volatile uint32_t *)0x40004004u)
#define UART0_CONTROL (*(volatile uint32_t *)0x40004008u)
#define UART0_BAUDS (*(volatile uint32_t *)0x40004010u)
#define CPACR (*(volatile uint32_t *)0xE000ED88u)

extern uint32_t data_in_flash[], data_begin[], data_end[], bss_begin[], bss_end[], stack_top[];
int main(void);
void reset(void);
void stop(void);

void reset(void)
{
    CPACR |= 0xFu << 20; /* the FPU is on before anything is computed */
    __asm__ volatile("dsb\n\tisb");
    memcpy(data_begin, data_in_flash, (size_t)((char *)data_end - (char *)data_begin));
    memset(bss_begin, 0, (size_t)((char *)bss_end - (char *)bss_begin));
    UART0_BAUDS = 16u;
    UART0_CONTROL = 1u;
    board_exit(main());
}

/* Every fault ends here: a debugger shows where it came from. */
void stop(void)
{
    board_write("stopped by a fault\n");
    board_exit(1);
}

__attribute__((section(".vectors"), used)) static const void *const vectors[16] = {
    stack_top, (const void *)reset, (const void *)stop, (const void *)stop,
    (const void *)stop, (const void *)stop, (const void *)stop,
};

void board_write(const char *text)
{
    for (; *text != '\0'; ++text) {
        while ((UART0_STATE & 1u) != 0u) {
        }
        UART0_DATA = (uint32_t)(unsigned char)*text;
    }
}

void board_exit(int code)
{
    const uint32_t how[2] = { 0x20026u, (uint32_t)code }; /* the program has ended by itself, with this code */
    register uint32_t r0 __asm__("r0") = 0x20u;           /* SYS_EXIT_EXTENDED of Arm's semihosting */
    register const void *r1 __asm__("r1") = how;

    __asm__ volatile("bkpt 0xAB" : : "r"(r0), "r"(r1) : "memory");
    for (;;) {
    }
}
