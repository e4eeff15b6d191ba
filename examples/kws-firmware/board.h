/* The little of a board that this example needs. */
#ifndef BOARD_H
#define BOARD_H

void board_write(const char *text);
void board_exit(int code); /* ends an emulator; a device stays here */

#endif
