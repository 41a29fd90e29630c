// Runs suites, by their names.
#include "harness.h"

#include <stdio.h>
#include <string.h>

typedef struct suite {
  const char *name;
  void (*run)(void);
} suite;

#define SUITE(name) {#name, suite_##name},
static const suite suites[] = {
#include "suites.h"
};

static const suite *find(const char *name) {
  size_t i;
  for (i = 0; i < sizeof suites / sizeof suites[0]; ++i) {
    if (strcmp(suites[i].name, name) == 0) return &suites[i];
  }
  fprintf(stderr, "there is no suite %s\n", name);
  return NULL;
}

int main(int count, char **arguments) {
  int i;
  if (count < 2) {
    fprintf(stderr, "usage: %s SUITE...\n", arguments[0]);
    return 2;
  }
  for (i = 1; i < count; ++i) {
    const suite *found = find(arguments[i]);
    if (found == NULL) return 2;
    found->run();
  }
  return 0;
}
