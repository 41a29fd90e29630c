// The load that every peer gets: GETs of 1,000 keys of 16 bytes with values of 100 bytes.
#ifndef LOAD_H
#define LOAD_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { KEYS = 1000, KEY_LEN = 16, VALUE_LEN = 100 };

static inline uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

// The key of the request with this number, and a NUL.
static inline void key_of(uint64_t number, char key[KEY_LEN + 1]) {
  snprintf(key, KEY_LEN + 1, "key-%012u", (unsigned)(number * 2654435761u % KEYS));
}

static inline int compare(const void *one, const void *other) {
  const uint32_t a = *(const uint32_t *)one, b = *(const uint32_t *)other;
  return (a > b) - (a < b);
}

// Prints a row of a table.
static inline void report(const char *name, int in_flight, uint32_t *latencies, uint64_t count, uint64_t elapsed_ns) {
  qsort(latencies, count, sizeof *latencies, compare);
  printf("| %s, %d in flight | %.0f | %.1f µs | %.1f µs |\n", name, in_flight, (double)count * 1e9 / (double)elapsed_ns,
         latencies[count / 2] / 1e3, latencies[count - 1 - count / 100] / 1e3);
  fflush(stdout);
}

#endif
