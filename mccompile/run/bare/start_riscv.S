/* SPDX-License-Identifier: 0BSD */
/* start_riscv.S - what a RISC-V core of 32 bits does before C, and the call that is watched. */
    .section .vectors, "ax", @progbits
    .global board_start
    .option arch, +zicsr
board_start:
    .option push
    .option norelax
    la gp, __global_pointer$
    .option pop
    la sp, __start_stack_end
    la tp, __thread_start
    la t0, trap
    csrw mtvec, t0
#if defined(__riscv_flen)
    li t0, 0x2000 /* mstatus.FS: the floating-point unit is on */
    csrs mstatus, t0
#endif
    call board_main

    .balign 4
trap:
    csrr a0, mcause
    csrr a1, mepc
    call board_trap

/* void board_spin(uint32_t turns): two instructions each. */
    .section .text.board_spin, "ax", @progbits
    .global board_spin
board_spin:
    addi a0, a0, -1
    bnez a0, board_spin
    ret

/* uint64_t board_cycles(void): the high half is read again where the low one may have wrapped meanwhile. */
    .section .text.board_cycles, "ax", @progbits
    .global board_cycles
board_cycles:
    csrr a1, mcycleh
    csrr a0, mcycle
    csrr t0, mcycleh
    bne a1, t0, board_cycles
    ret

/* int32_t board_call(int32_t (*function)(const void *), const void *argument, uint32_t *stack_end) */
    .section .text.board_call, "ax", @progbits
    .global board_call
board_call:
    addi sp, sp, -16
    sw ra, 12(sp)
    sw s0, 8(sp)
    mv s0, sp
    mv sp, a2
    mv t0, a0
    mv a0, a1
1:
    jalr t0
2:
    mv sp, s0
    lw ra, 12(sp)
    lw s0, 8(sp)
    addi sp, sp, 16
    ret

    .section .mcc_marks, "", @progbits
    .4byte 1b, -2
    .4byte 2b, -1
