/*
 * Loaded into a program under attack: its threads wake each other by other calls than those that have its files. libuv wakes a
 * thread by a write(2) to an eventfd(2), and the thread that wakes reads it. How often that happens varies from run to run, so
 * that the numbers of all writes and reads after it would vary; and libuv ends the process where such a call fails.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* What libuv asks for at once: the size of the counter, or as much as it reads from a pipe. */
static int may_be_wake_up(size_t size) { return size == sizeof(uint64_t) || size == 1024; }

static int is_eventfd(int fd) {
  char link[32], target[32];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, target, sizeof target);
  static const char name[] = "anon_inode:[eventfd]";
  return length == sizeof name - 1 && memcmp(target, name, sizeof name - 1) == 0;
}

ssize_t write(int fd, const void *from, size_t size) {
  if (!may_be_wake_up(size) || !is_eventfd(fd)) return syscall(SYS_write, fd, from, size);
  struct iovec part = {(void *)from, size};
  return syscall(SYS_pwritev2, fd, &part, 1, -1L, -1L, 0);
}

ssize_t read(int fd, void *into, size_t size) {
  if (!may_be_wake_up(size) || !is_eventfd(fd)) return syscall(SYS_read, fd, into, size);
  struct iovec part = {into, size};
  return syscall(SYS_preadv2, fd, &part, 1, -1L, -1L, 0);
}
