/* One second of each of some words, 8 kHz, 16 bits: what a microphone would deliver. */
    .section .rodata
    .balign 4
    .global clips
    .global clips_end
clips:
    .incbin "clips.i16"
clips_end:
