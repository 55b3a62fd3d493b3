/* Counts the calls of a process that change files below one folder, and kills it at one of them.

   Armed by red_arm(folder, point); point 0 only counts. A call dies before it happens, or, for a
   write, after half of it did: what a machine that stops leaves behind. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static char folder[4096];
static long last;
static atomic_long count;
static atomic_int armed;

void red_arm(const char *where, long point) {
    strncpy(folder, where, sizeof folder - 1);
    last = point;
    count = 0;
    armed = 1;
}

long red_count(void) { return count; }

static int inside_path(const char *path) {
    return armed && path != NULL && strncmp(path, folder, strlen(folder)) == 0;
}

static int inside_fd(int fd) {
    char link[64], path[4096];
    if (!armed) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size < 0) return 0;
    path[size] = 0;
    return inside_path(path);
}

/* Whether this is the call to die at. */
static int due(void) { return atomic_fetch_add(&count, 1) + 1 == last; }

static void die(void) { kill(getpid(), SIGKILL); for (;;) pause(); }

#define REAL(type, name, ...) \
    static type (*real)(__VA_ARGS__); \
    if (!real) real = dlsym(RTLD_NEXT, #name);

ssize_t write(int fd, const void *data, size_t size) {
    REAL(ssize_t, write, int, const void *, size_t)
    if (inside_fd(fd) && due()) { real(fd, data, size / 2); die(); }
    return real(fd, data, size);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off_t at) {
    REAL(ssize_t, pwrite64, int, const void *, size_t, off_t)
    if (inside_fd(fd) && due()) { real(fd, data, size / 2, at); die(); }
    return real(fd, data, size, at);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t at) {
    REAL(ssize_t, pwrite, int, const void *, size_t, off_t)
    if (inside_fd(fd) && due()) { real(fd, data, size / 2, at); die(); }
    return real(fd, data, size, at);
}

int fsync(int fd) {
    REAL(int, fsync, int)
    if (inside_fd(fd) && due()) die();
    return real(fd);
}

int fdatasync(int fd) {
    REAL(int, fdatasync, int)
    if (inside_fd(fd) && due()) die();
    return real(fd);
}

int ftruncate(int fd, off_t size) {
    REAL(int, ftruncate, int, off_t)
    if (inside_fd(fd) && due()) die();
    return real(fd, size);
}

int ftruncate64(int fd, off_t size) {
    REAL(int, ftruncate64, int, off_t)
    if (inside_fd(fd) && due()) die();
    return real(fd, size);
}

int rename(const char *from, const char *to) {
    REAL(int, rename, const char *, const char *)
    if (inside_path(to) && due()) die();
    return real(from, to);
}

int unlink(const char *path) {
    REAL(int, unlink, const char *)
    if (inside_path(path) && due()) die();
    return real(path);
}

int mkdir(const char *path, mode_t mode) {
    REAL(int, mkdir, const char *, mode_t)
    if (inside_path(path) && due()) die();
    return real(path, mode);
}
