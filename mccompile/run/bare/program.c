/* SPDX-License-Identifier: 0BSD */
/* program.c - what a C library (newlib, picolibc) asks of its system, by semihosting: so that a program with files and
 * printf runs on a board. The emulator's working folder is the program's. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "board.h"

enum { SYS_OPEN = 0x01, SYS_CLOSE = 0x02, SYS_WRITE = 0x05, SYS_READ = 0x06, SYS_SEEK = 0x0A, SYS_FLEN = 0x0C };
enum { READ_BINARY = 1, WRITE_BINARY = 5, STREAM_READ = 0, STREAM_WRITE = 4, STREAM_APPEND = 8 };
enum { FILES = 16, STREAMS = 3 };

#ifdef __PICOLIBC__
#define SYSTEM(name) name
#else
#define SYSTEM(name) _##name
#endif

int SYSTEM(open)(const char *path, int flags, ...);
int SYSTEM(close)(int file);
int SYSTEM(read)(int file, void *to, size_t bytes);
int SYSTEM(write)(int file, const void *from, size_t bytes);
off_t SYSTEM(lseek)(int file, off_t offset, int whence);
int SYSTEM(fstat)(int file, struct stat *about);
int SYSTEM(isatty)(int file);
int SYSTEM(kill)(int process, int signal);
int SYSTEM(getpid)(void);
void SYSTEM(exit)(int status);
void *SYSTEM(sbrk)(ptrdiff_t bytes);
void board_close_library(void);

/* What the host calls a file, 0: it is not open; and where it is read or written next. */
static struct {
    intptr_t handle;
    off_t at;
} files[FILES];

static intptr_t open_on_host(const char *path, uintptr_t mode)
{
    uintptr_t length = 0;

    while (path[length] != '\0') {
        ++length;
    }
    const uintptr_t arguments[3] = { (uintptr_t)path, mode, length };
    return board_host(SYS_OPEN, arguments);
}

/* The host's handle of an open file; the standard streams open themselves. -1 where there is none. */
static intptr_t handle_of(int file)
{
    static const uintptr_t modes[STREAMS] = { STREAM_READ, STREAM_WRITE, STREAM_APPEND };

    if ((file < 0) || (file >= FILES)) {
        return -1;
    }
    if ((files[file].handle == 0) && (file < STREAMS)) {
        files[file].handle = open_on_host(":tt", modes[file]);
    }
    return (files[file].handle == 0) ? -1 : files[file].handle;
}

int SYSTEM(open)(const char *path, int flags, ...)
{
    for (int file = STREAMS; file < FILES; ++file) {
        if (files[file].handle == 0) {
            const intptr_t handle = open_on_host(path, ((flags & O_ACCMODE) == O_RDONLY) ? READ_BINARY : WRITE_BINARY);
            if (handle <= 0) {
                errno = ENOENT;
                return -1;
            }
            files[file].handle = handle;
            files[file].at = 0;
            return file;
        }
    }
    errno = EMFILE;
    return -1;
}

int SYSTEM(close)(int file)
{
    const uintptr_t arguments[1] = { (uintptr_t)handle_of(file) };

    if ((file < 0) || (file >= FILES)) {
        errno = EBADF;
        return -1;
    }
    files[file].handle = 0;
    return (int)board_host(SYS_CLOSE, arguments);
}

static int transfer(int operation, int file, uintptr_t memory, size_t bytes)
{
    const uintptr_t arguments[3] = { (uintptr_t)handle_of(file), memory, bytes };
    const size_t left = (size_t)board_host(operation, arguments);

    if (left > bytes) {
        errno = EBADF;
        return -1;
    }
    files[file].at += (off_t)(bytes - left);
    return (int)(bytes - left);
}

int SYSTEM(read)(int file, void *to, size_t bytes)
{
    return transfer(SYS_READ, file, (uintptr_t)to, bytes);
}

int SYSTEM(write)(int file, const void *from, size_t bytes)
{
    return transfer(SYS_WRITE, file, (uintptr_t)from, bytes);
}

off_t SYSTEM(lseek)(int file, off_t offset, int whence)
{
    const uintptr_t length_arguments[1] = { (uintptr_t)handle_of(file) };
    off_t to = offset;

    if (file < STREAMS) {
        errno = ESPIPE;
        return -1;
    }
    if (whence == SEEK_CUR) {
        to += files[file].at;
    } else if (whence == SEEK_END) {
        to += (off_t)board_host(SYS_FLEN, length_arguments);
    }
    const uintptr_t arguments[2] = { (uintptr_t)handle_of(file), (uintptr_t)to };
    if (board_host(SYS_SEEK, arguments) != 0) {
        errno = EINVAL;
        return -1;
    }
    files[file].at = to;
    return to;
}

int SYSTEM(fstat)(int file, struct stat *about)
{
    about->st_mode = (file < STREAMS) ? S_IFCHR : S_IFREG;
    about->st_blksize = 1024;
    return 0;
}

int SYSTEM(isatty)(int file)
{
    return (file < STREAMS) ? 1 : 0;
}

int SYSTEM(kill)(int process, int signal)
{
    (void)process;
    board_exit(128 + signal);
    return -1;
}

int SYSTEM(getpid)(void)
{
    return 1;
}

void SYSTEM(exit)(int status)
{
    board_exit(status);
    for (;;) {
    }
}

/* The library's own heap: of buffers of files, and numbers that are printed. */
void *SYSTEM(sbrk)(ptrdiff_t bytes)
{
    static uint8_t heap[32 * 1024] __attribute__((aligned(16)));
    static size_t used;

    if ((bytes < 0) || ((size_t)bytes > sizeof(heap) - used)) {
        errno = ENOMEM;
        return (void *)-1;
    }
    used += (size_t)bytes;
    return &heap[used - (size_t)bytes];
}

#ifdef __PICOLIBC__
static int put_character(char c, FILE *stream)
{
    (void)stream;
    return (write(1, &c, 1) == 1) ? (unsigned char)c : EOF;
}

static int put_error(char c, FILE *stream)
{
    (void)stream;
    return (write(2, &c, 1) == 1) ? (unsigned char)c : EOF;
}

static FILE output = FDEV_SETUP_STREAM(put_character, NULL, NULL, _FDEV_SETUP_WRITE);
static FILE errors = FDEV_SETUP_STREAM(put_error, NULL, NULL, _FDEV_SETUP_WRITE);
FILE *const stdin = NULL;
FILE *const stdout = &output;
FILE *const stderr = &errors;
#endif

void board_close_library(void)
{
    (void)fflush(stdout);
}
