"""Generated C in use: built by a C compiler, its memory, and a network that Python runs."""
