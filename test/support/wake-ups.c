/*
 * Loaded into a program under attack: its threads wake each other by other calls than those that have its files. libuv wakes a
 * thread by a write(2) to an eventfd(2), and the thread that wakes reads it. How often that happens varies from run to run, so
 * that the numbers of all writes and reads after it would vary; and libuv ends the process where such a call fails.
 */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* By their descriptors. One that is given to a file later stays here: what is written to that file in just such a size is not struck. */
static atomic_bool eventfds[65536];

int eventfd(unsigned int count, int flags) {
  int fd = syscall(SYS_eventfd2, count, flags);
  if (fd >= 0 && fd < (int)sizeof eventfds) atomic_store(&eventfds[fd], 1);
  return fd;
}

/* Libuv asks for the size of the counter, or for as much as it reads from a pipe. Asking the system would cost more than the call. */
static int is_wake_up(int fd, size_t size) {
  return (size == sizeof(uint64_t) || size == 1024) && fd >= 0 && fd < (int)sizeof eventfds && atomic_load(&eventfds[fd]);
}

ssize_t write(int fd, const void *from, size_t size) {
  if (!is_wake_up(fd, size)) return syscall(SYS_write, fd, from, size);
  struct iovec part = {(void *)from, size};
  return syscall(SYS_pwritev2, fd, &part, 1, -1L, -1L, 0);
}

ssize_t read(int fd, void *into, size_t size) {
  if (!is_wake_up(fd, size)) return syscall(SYS_read, fd, into, size);
  struct iovec part = {into, size};
  return syscall(SYS_preadv2, fd, &part, 1, -1L, -1L, 0);
}
