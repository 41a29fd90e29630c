// What the tests of conditions and of transactions share: options, versions, what a key has.
#ifndef VERSIONS_H
#define VERSIONS_H

#include <string.h>

#include "harness.h"

// How many operations a transaction of the server may have.
#define MOST 10000

static inline sst_set_options set_options(void) {
  sst_set_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  return options;
}

static inline sst_del_options del_options(void) {
  sst_del_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  return options;
}

static inline sst_get_options remaining(void) {
  sst_get_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.remaining = 1;
  return options;
}

static inline sst_hlc *parse(const char *text) {
  sst_error *error = NULL;
  sst_hlc *version = NULL;
  EXPECT(SST_OK, sst_hlc_parse(text, strlen(text), &version, &error));
  return version;
}

static inline sst_hlc *set(sst_client *client, const char *key, const char *value) {
  sst_error *error = NULL;
  sst_hlc *version = NULL;
  EXPECT(SST_OK, sst_set(client, key, strlen(key), value, strlen(value), NULL, NULL, &version, &error));
  CHECK(version != NULL);
  return version;
}

static inline bool has(sst_client *client, const char *key, const char *value) {
  sst_error *error = NULL;
  sst_entry *entry = NULL;
  bool found;
  EXPECT(SST_OK, sst_get(client, key, strlen(key), NULL, &entry, &error));
  found = value != NULL ? entry != NULL && holds(sst_entry_value(entry), value) : entry == NULL;
  sst_entry_free(entry);
  return found;
}

// Frees the first.
static inline bool is_same(sst_hlc *version, const sst_hlc *other) {
  int32_t order = 7;
  CHECK(version != NULL && sst_hlc_compare(version, other, &order, NULL) == SST_OK);
  sst_hlc_free(version);
  return order == 0;
}

#endif
