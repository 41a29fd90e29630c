/* A disk and a clock with faults, put between a process and its files:
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
 *     platter OTHER      in the folder OTHER is what a power failure would leave: for each file, named by its inode, the
 *                        bytes that a sync has reached since they were written, and in `names` a line `INODE NAME`
 *                        for each file that was there when the folder was synced last
 *     trace FILE         appends a line `sync NAME` for each sync, `rename NAME` for each new name; `.` is DIR
 *     clock_ahead_ms N   the wall clock is ahead by so much
 *
 * Writes take the space that is left before one fails, as on a real disk, so they may be short. After a sync that
 * failed, what it should have written counts as written, as in Linux: a later sync does not reach it. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define BLOCK 4096
/* What a file system may need for a file's list of extents, which `st_blocks` counts too. */
#define EXTENT_BYTES (16LL * BLOCK)

struct control {
  char under[PATH_MAX];
  long long capacity; /* -1: no limit */
  long sync_delay_ms;
  long sync_errors;
  bool no_fallocate;
  char platter[PATH_MAX];
  char trace[PATH_MAX];
  long long clock_ahead_ms;
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
    } else if (strcmp(line, "platter") == 0) {
      snprintf(control->platter, sizeof control->platter, "%s", value);
    } else if (strcmp(line, "trace") == 0) {
      snprintf(control->trace, sizeof control->trace, "%s", value);
    } else if (strcmp(line, "clock_ahead_ms") == 0) {
      control->clock_ahead_ms = atoll(value);
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

static long long whole_blocks(long long length) { return (length + BLOCK - 1) / BLOCK * BLOCK; }

/* What a file takes: what is reserved for it, and at least its length. Some file systems compress, or count blocks only later. */
static long long room_of(const struct stat *status) {
  long long blocks = (long long)status->st_blocks * 512, length = (long long)status->st_size;
  long long whole = whole_blocks(length);
  return blocks > whole ? blocks : whole;
}

/* Up to where the file can be written without taking more: a few blocks beyond its length are the list of its extents. */
static long long writable_bytes(const struct stat *status) {
  long long room = room_of(status), whole = whole_blocks((long long)status->st_size);
  return room > whole + EXTENT_BYTES ? room : whole;
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
      used += room_of(&status);
  }
  closedir(directory);
  return used;
}

/* How many of the bytes up to `end` of the file there is room for; files have no holes. */
static long long end_within_capacity(int fd, const struct control *control, long long end) {
  struct stat status;
  if (control->capacity < 0 || fstat(fd, &status) != 0) return end;
  long long allocated = writable_bytes(&status);
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

/* Appends a line to the trace. */
static void trace(const struct control *control, const char *what, const char *name) {
  FILE *file = control->trace[0] == '\0' ? NULL : fopen(control->trace, "ae");
  if (file == NULL) return;
  fprintf(file, "%s %s\n", what, name[0] == '\0' ? "." : name);
  fclose(file);
}

/* What was written and not synced yet. */
struct range {
  ino_t inode;
  long long begin, end;
};
static struct range ranges[4096];
static size_t range_count;
static pthread_mutex_t ranges_lock = PTHREAD_MUTEX_INITIALIZER;

static void written(int fd, long long begin, ssize_t count) {
  struct control control;
  char name[PATH_MAX];
  struct stat status;
  int before = errno;
  if (count > 0 && read_control(&control) && control.platter[0] != '\0' && is_concerned(fd, &control, name) &&
      fstat(fd, &status) == 0) {
    pthread_mutex_lock(&ranges_lock);
    struct range *last = range_count == 0 ? NULL : &ranges[range_count - 1];
    if (last != NULL && last->inode == status.st_ino && last->end == begin) {
      last->end += count;
    } else {
      if (range_count == sizeof ranges / sizeof ranges[0]) abort();
      ranges[range_count++] = (struct range){status.st_ino, begin, begin + count};
    }
    pthread_mutex_unlock(&ranges_lock);
  }
  errno = before;
}

static void copy_range(int from, int to, const struct range *range) {
  static ssize_t (*real)(int, const void *, size_t, off64_t);
  if (real == NULL) real = next("pwrite64");
  char bytes[65536];
  for (long long at = range->begin; at < range->end;) {
    size_t count = range->end - at < (long long)sizeof bytes ? (size_t)(range->end - at) : sizeof bytes;
    ssize_t got = pread64(from, bytes, count, at);
    if (got <= 0) return; /* it was cut off meanwhile */
    if (real(to, bytes, (size_t)got, at) != got) abort();
    at += got;
  }
}

/* Brings what was written to a file to the platter, or forgets it. */
static void settle(int fd, const struct control *control, bool is_synced) {
  struct stat status;
  char link[64], path[2 * PATH_MAX];
  if (fstat(fd, &status) != 0) return;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  snprintf(path, sizeof path, "%s/%llu", control->platter, (unsigned long long)status.st_ino);
  int from = is_synced ? open(link, O_RDONLY | O_CLOEXEC) : -1;
  int to = is_synced ? open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600) : -1;
  pthread_mutex_lock(&ranges_lock);
  size_t kept = 0;
  for (size_t i = 0; i < range_count; i++) {
    if (ranges[i].inode != status.st_ino) {
      ranges[kept++] = ranges[i];
    } else if (from >= 0 && to >= 0) {
      copy_range(from, to, &ranges[i]);
    }
  }
  range_count = kept;
  pthread_mutex_unlock(&ranges_lock);
  if (to >= 0 && ftruncate(to, status.st_size) != 0) abort();
  if (from >= 0) close(from);
  if (to >= 0) close(to);
}

/* Brings the names in the folder to the platter. */
static void settle_names(const struct control *control) {
  char path[2 * PATH_MAX], new[2 * PATH_MAX];
  snprintf(path, sizeof path, "%s/names", control->platter);
  snprintf(new, sizeof new, "%s/names.%d", control->platter, gettid());
  FILE *names = fopen(new, "we");
  DIR *directory = opendir(control->under);
  if (names == NULL || directory == NULL) abort();
  struct dirent *entry;
  while ((entry = readdir(directory)) != NULL) {
    if (entry->d_type == DT_REG) fprintf(names, "%llu %s\n", (unsigned long long)entry->d_ino, entry->d_name);
  }
  closedir(directory);
  fclose(names);
  rename(new, path);
}

ssize_t write(int fd, const void *bytes, size_t count) {
  static ssize_t (*real)(int, const void *, size_t);
  if (real == NULL) real = next("write");
  ssize_t allowed = within_capacity(fd, -1, count);
  if (allowed < 0) return -1;
  ssize_t done = real(fd, bytes, (size_t)allowed);
  int error = errno;
  if (done > 0) written(fd, lseek(fd, 0, SEEK_CUR) - done, done);
  errno = error;
  return done;
}

ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t at) {
  static ssize_t (*real)(int, const void *, size_t, off64_t);
  if (real == NULL) real = next("pwrite64");
  ssize_t allowed = within_capacity(fd, at, count);
  if (allowed < 0) return -1;
  ssize_t done = real(fd, bytes, (size_t)allowed, at);
  written(fd, at, done);
  return done;
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

int rename(const char *from, const char *to) {
  static int (*real)(const char *, const char *);
  if (real == NULL) real = next("rename");
  struct control control;
  int result = real(from, to);
  if (result == 0 && read_control(&control)) {
    size_t prefix = strlen(control.under);
    if (strncmp(to, control.under, prefix) == 0 && to[prefix] == '/') trace(&control, "rename", to + prefix + 1);
  }
  return result;
}

static int sync_with(int fd, int (*real)(int)) {
  struct control control;
  char name[PATH_MAX];
  if (!read_control(&control) || !is_concerned(fd, &control, name)) return real(fd);
  struct timespec left = {control.sync_delay_ms / 1000, control.sync_delay_ms % 1000 * 1000000};
  while (nanosleep(&left, &left) != 0 && errno == EINTR) {
  }
  bool fails = strncmp(name, "log-", 4) == 0 && atomic_load(&sync_errors_made) < control.sync_errors;
  if (fails) atomic_fetch_add(&sync_errors_made, 1);
  int result = fails ? -1 : real(fd);
  if (control.platter[0] != '\0' && name[0] == '\0' && result == 0) {
    settle_names(&control);
  } else if (control.platter[0] != '\0' && name[0] != '\0') {
    settle(fd, &control, result == 0);
  }
  if (result == 0) trace(&control, "sync", name);
  if (fails) errno = EIO;
  return result;
}

/* How far the wall clock is ahead. */
static long long clock_ahead_ms(void) {
  struct control control;
  int before = errno;
  long long ahead_ms = read_control(&control) ? control.clock_ahead_ms : 0;
  errno = before;
  return ahead_ms;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
  static int (*real)(clockid_t, struct timespec *);
  if (real == NULL) real = next("clock_gettime");
  int result = real(clock, time);
  if (result == 0 && clock == CLOCK_REALTIME) {
    long long ahead_ms = clock_ahead_ms();
    time->tv_sec += ahead_ms / 1000;
    time->tv_nsec += ahead_ms % 1000 * 1000000;
    if (time->tv_nsec >= 1000000000) {
      time->tv_sec++;
      time->tv_nsec -= 1000000000;
    }
  }
  return result;
}

/* What Redis asks for the time. */
int gettimeofday(struct timeval *restrict time, void *restrict zone) {
  static int (*real)(struct timeval *, void *);
  if (real == NULL) real = next("gettimeofday");
  int result = real(time, zone);
  if (result == 0) {
    long long ahead_ms = clock_ahead_ms();
    time->tv_sec += ahead_ms / 1000;
    time->tv_usec += ahead_ms % 1000 * 1000;
    if (time->tv_usec >= 1000000) {
      time->tv_sec++;
      time->tv_usec -= 1000000;
    }
  }
  return result;
}

int fsync(int fd) {
  static int (*real)(int);
  if (real == NULL) real = next("fsync");
  return sync_with(fd, real);
}

int fdatasync(int fd) {
  static int (*real)(int);
  if (real == NULL) real = next("fdatasync");
  return sync_with(fd, real);
}
