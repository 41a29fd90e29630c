// Runs one suite, by its name.
#include "harness.h"

#include <stdio.h>
#include <string.h>

typedef struct suite {
  const char *name;
  void (*run)(void);
} suite;

static const suite suites[] = {
    {"values", suite_values},   {"async", suite_async},         {"locks", suite_locks},   {"observers", suite_observers},
    {"handles", suite_handles}, {"arguments", suite_arguments}, {"close", suite_close},   {"fork", suite_fork},
    {"panic", suite_panic},     {"threads", suite_threads},     {"cancel", suite_cancel}, {"log", suite_log},
    {"vectors", suite_vectors}, {"wire", suite_wire},
};

int main(int count, char **arguments) {
  size_t i;
  for (i = 0; i < sizeof suites / sizeof suites[0]; ++i) {
    if (count == 2 && strcmp(arguments[1], suites[i].name) == 0) {
      suites[i].run();
      return 0;
    }
  }
  fprintf(stderr, "usage: %s SUITE\n", arguments[0]);
  return 2;
}
