/* A disk with faults, put between a process and its files:
 *
 *     cc -shared -fPIC -O1 -o disk.so tests/disk/disk.c -ldl
 *     STATESTORE_TEST_DISK=/path/of/control LD_PRELOAD=./disk.so statestored --data-dir DIR ...
 *
 * The control file is read anew at each call, so faults come and go while the process runs. Replace it by rename.
 * Without the file there are no faults. It has one setting per line:
 *
 *     under DIR          only files in this folder are concerned, and the folder itself; without it, none
 *     capacity BYTES     what the files of DIR may take together; beyond it, write and fallocate say ENOSPC
 *     sync_delay_ms N    how long fsync and fdatasync take, besides what they really take
 *     sync_error N       fsync and fdatasync of a file whose name begins with "log-" fail with EIO N times in
 *                        this process
 *     no_fallocate 1     fallocate says EOPNOTSUPP, as on file systems that cannot reserve
 *
 * Writes take the space that is left before one fails, as on a real disk, so they may be short. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define BLOCK 4096

struct control {
  char under[PATH_MAX];
  long long capacity; /* -1: no limit */
  long sync_delay_ms;
  long sync_errors;
  bool no_fallocate;
};

static atomic_long sync_errors_made;

/* Reads the control file; false if there is none, or it concerns nothing. */
static bool read_control(struct control *control) {
  *control = (struct control){.capacity = -1};
  const char *path = getenv("STATESTORE_TEST_DISK");
  FILE *file = path == NULL ? NULL : fopen(path, "re");
  if (file == NULL) return false;
  char line[PATH_MAX + 64];
  while (fgets(line, sizeof line, file) != NULL) {
    line[strcspn(line, "\n")] = '\0';
    char *value = strchr(line, ' ');
    if (value == NULL) continue;
    *value++ = '\0';
    if (strcmp(line, "under") == 0) {
      if (realpath(value, control->under) == NULL) control->under[0] = '\0';
    } else if (strcmp(line, "capacity") == 0) {
      control->capacity = atoll(value);
    } else if (strcmp(line, "sync_delay_ms") == 0) {
      control->sync_delay_ms = atol(value);
    } else if (strcmp(line, "sync_error") == 0) {
      control->sync_errors = atol(value);
    } else if (strcmp(line, "no_fallocate") == 0) {
      control->no_fallocate = atoi(value) != 0;
    }
  }
  fclose(file);
  return control->under[0] != '\0';
}

/* Whether the descriptor is a file of the folder, or the folder; `name` becomes the file's name in it. */
static bool is_concerned(int fd, const struct control *control, char name[PATH_MAX]) {
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return false;
  path[length] = '\0';
  size_t prefix = strlen(control->under);
  if (strncmp(path, control->under, prefix) != 0) return false;
  if (path[prefix] != '\0' && path[prefix] != '/') return false;
  strcpy(name, path[prefix] == '/' ? path + prefix + 1 : "");
  return true;
}

/* What all files of the folder take. */
static long long used_bytes(const char *under) {
  long long used = 0;
  DIR *directory = opendir(under);
  if (directory == NULL) return 0;
  struct dirent *entry;
  while ((entry = readdir(directory)) != NULL) {
    struct stat status;
    if (fstatat(dirfd(directory), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(status.st_mode))
      used += (long long)status.st_blocks * 512;
  }
  closedir(directory);
  return used;
}

/* How many of the bytes up to `end` of the file there is room for; files have no holes. */
static long long end_within_capacity(int fd, const struct control *control, long long end) {
  struct stat status;
  if (control->capacity < 0 || fstat(fd, &status) != 0) return end;
  long long allocated = (long long)status.st_blocks * 512;
  long long left = control->capacity - used_bytes(control->under);
  long long most = allocated + (left > 0 ? left / BLOCK * BLOCK : 0);
  return end < most ? end : most;
}

/* How many bytes of a write at `begin` may be written; -1 with errno if none. */
static ssize_t within_capacity(int fd, long long begin, size_t count) {
  struct control control;
  char name[PATH_MAX];
  int before = errno;
  ssize_t allowed = (ssize_t)count;
  if (count > 0 && read_control(&control) && is_concerned(fd, &control, name)) {
    if (begin < 0) begin = lseek(fd, 0, SEEK_CUR);
    if (begin >= 0) {
      long long end = end_within_capacity(fd, &control, begin + (long long)count);
      if (end <= begin) {
        errno = ENOSPC;
        return -1;
      }
      allowed = (ssize_t)(end - begin);
    }
  }
  errno = before;
  return allowed;
}

static void *next(const char *name) {
  void *function = dlsym(RTLD_NEXT, name);
  if (function == NULL) abort();
  return function;
}

ssize_t write(int fd, const void *bytes, size_t count) {
  static ssize_t (*real)(int, const void *, size_t);
  if (real == NULL) real = next("write");
  ssize_t allowed = within_capacity(fd, -1, count);
  return allowed < 0 ? -1 : real(fd, bytes, (size_t)allowed);
}

ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t at) {
  static ssize_t (*real)(int, const void *, size_t, off64_t);
  if (real == NULL) real = next("pwrite64");
  ssize_t allowed = within_capacity(fd, at, count);
  return allowed < 0 ? -1 : real(fd, bytes, (size_t)allowed, at);
}

ssize_t pwrite(int fd, const void *bytes, size_t count, off_t at) { return pwrite64(fd, bytes, count, at); }

int fallocate64(int fd, int mode, off64_t at, off64_t count) {
  static int (*real)(int, int, off64_t, off64_t);
  if (real == NULL) real = next("fallocate64");
  struct control control;
  char name[PATH_MAX];
  if (read_control(&control) && is_concerned(fd, &control, name)) {
    if (control.no_fallocate) {
      errno = EOPNOTSUPP;
      return -1;
    }
    if (end_within_capacity(fd, &control, at + count) < at + count) {
      errno = ENOSPC;
      return -1;
    }
  }
  return real(fd, mode, at, count);
}

int fallocate(int fd, int mode, off_t at, off_t count) { return fallocate64(fd, mode, at, count); }

/* The delay and the error of a sync; false if it is to fail. */
static bool before_sync(int fd) {
  struct control control;
  char name[PATH_MAX];
  if (!read_control(&control) || !is_concerned(fd, &control, name)) return true;
  struct timespec left = {control.sync_delay_ms / 1000, control.sync_delay_ms % 1000 * 1000000};
  while (nanosleep(&left, &left) != 0 && errno == EINTR) {
  }
  if (strncmp(name, "log-", 4) == 0 && atomic_load(&sync_errors_made) < control.sync_errors) {
    atomic_fetch_add(&sync_errors_made, 1);
    errno = EIO;
    return false;
  }
  return true;
}

int fsync(int fd) {
  static int (*real)(int);
  if (real == NULL) real = next("fsync");
  return before_sync(fd) ? real(fd) : -1;
}

int fdatasync(int fd) {
  static int (*real)(int);
  if (real == NULL) real = next("fdatasync");
  return before_sync(fd) ? real(fd) : -1;
}
