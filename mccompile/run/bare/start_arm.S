/* SPDX-License-Identifier: 0BSD */
/* start_arm.S - the vectors of an M-profile core, what it does before C, and the call that is watched. */
    .syntax unified
    .thumb

    .section .vectors, "a", %progbits
    .global board_start
    .word __start_stack_end
    .word board_start
    .rept 14 /* all other exceptions: no interrupt is ever enabled */
    .word fault
    .endr

    .section .text.board_start, "ax", %progbits
    .thumb_func
    .type board_start, %function
board_start:
#if defined(__ARM_FP) || defined(__ARM_FEATURE_MVE)
    ldr r0, =0xE000ED88 /* CPACR: coprocessors 10 and 11 are the floating-point unit and Helium */
    ldr r1, [r0]
    ldr r2, =0x00F00000
    orrs r1, r2
    str r1, [r0]
    dsb
    isb
#endif
    bl board_main

    .thumb_func
    .type fault, %function
fault:
    mrs r0, msp
    mrs r1, psp
    mov r2, lr
    bl board_fault
    .pool

/* void board_spin(uint32_t turns): two instructions each. */
    .section .text.board_spin, "ax", %progbits
    .global board_spin
    .thumb_func
    .type board_spin, %function
board_spin:
    subs r0, r0, #1
    bne board_spin
    bx lr

/* int32_t board_call(int32_t (*function)(const void *), const void *argument, uint32_t *stack_end)
 * The process stack is the watched one, so that a fault has the main stack for its handler. */
    .section .text.board_call, "ax", %progbits
    .global board_call
    .thumb_func
    .type board_call, %function
board_call:
    push {r4, lr}
    mov r3, r0
    mov r0, r1
    msr psp, r2
    mrs r2, control
    movs r4, #2 /* SPSEL */
    orrs r2, r4
    msr control, r2
    isb
1:
    blx r3
2:
    mrs r2, control
    bics r2, r4
    msr control, r2
    isb
    pop {r4, pc}

    .section .mcc_marks, "", %progbits
    .4byte 1b, -2
    .4byte 2b, -1
