// Scans: page by page, and key by key or entry by entry, blocking and with callbacks.
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void on_keys(void *context, sst_status status, const sst_error *error, const sst_keys *keys) {
  char text[16];
  CHECK(error == NULL && sst_keys_at(keys, sst_keys_len(keys)).data == NULL);
  snprintf(text, sizeof text, "%d%s", (int)sst_keys_len(keys), keys == NULL ? " end" : "");
  latch_call((latch *)context, status, NULL, text);
}

static void on_bytes(void *context, sst_status status, const sst_error *error, const sst_bytes *bytes) {
  char text[64] = "end";
  const sst_slice key = sst_bytes_slice(bytes);
  CHECK(error == NULL);
  if (bytes != NULL) copy_text(key, text);
  latch_call((latch *)context, status, NULL, text);
}

// More keys than there are in a page.
static void many_keys(sst_client *client, int keys) {
  sst_error *error = NULL;
  int i;
  for (i = 0; i < keys; ++i) {
    char name[32];
    snprintf(name, sizeof name, "scans/part/%04d", i);
    EXPECT(SST_OK, sst_set(client, name, strlen(name), TEXT("x"), NULL, NULL, NULL, &error));
  }
  EXPECT(SST_OK, sst_set(client, TEXT("scans/other"), TEXT("x"), NULL, NULL, NULL, &error));
}

static void blocking(sst_client *client, int all) {
  sst_error *error = NULL;
  sst_scan *scan = NULL;
  sst_keys *keys = NULL;
  sst_bytes *key = NULL;
  int found = 0;
  size_t i;
  EXPECT(SST_OK, sst_scan_new(client, TEXT("scans/part/*"), NULL, &scan, &error));
  for (;;) {
    EXPECT(SST_OK, sst_scan_next_page(scan, &keys, &error));
    if (keys == NULL) break;
    for (i = 0; i < sst_keys_len(keys); ++i) {
      char text[64];
      copy_text(sst_keys_at(keys, i), text);
      CHECK(strlen(text) == 15 && strncmp(text, "scans/part/", 11) == 0);
    }
    CHECK(sst_keys_at(keys, sst_keys_len(keys)).data == NULL);
    found += (int)sst_keys_len(keys);
    sst_keys_free(keys);
  }
  CHECK(found == all);
  // There is nothing after the end.
  EXPECT(SST_OK, sst_scan_next_page(scan, &keys, &error));
  CHECK(keys == NULL);
  sst_scan_free(scan);

  EXPECT(SST_OK, sst_scan_new(client, TEXT("scans/part/000[0-4]"), NULL, &scan, &error));
  for (found = 0;; ++found) {
    EXPECT(SST_OK, sst_scan_next(scan, &key, &error));
    if (key == NULL) break;
    CHECK(sst_bytes_slice(key).len == 15);
    sst_bytes_free(key);
  }
  CHECK(found == 5);
  sst_scan_free(scan);
}

static void with_callbacks(sst_client *client, int all) {
  sst_error *error = NULL;
  sst_scan *scan = NULL;
  latch received;
  const sst_on_keys page = {&received, on_keys, latch_drop};
  const sst_on_bytes key = {&received, on_bytes, latch_drop};
  int found = 0, calls = 0;
  latch_init(&received);
  EXPECT(SST_OK, sst_scan_new(client, TEXT("scans/*"), NULL, &scan, &error));
  do {
    EXPECT(SST_OK, sst_scan_next_page_async(scan, page, NULL, &error));
    latch_wait_drops(&received, ++calls);
    found += atoi(received.text);
  } while (strstr(received.text, "end") == NULL);
  CHECK(found == all + 1);
  sst_scan_free(scan);
  EXPECT(SST_OK, sst_scan_new(client, TEXT("scans/oth?r"), NULL, &scan, &error));
  EXPECT(SST_OK, sst_scan_next_async(scan, key, NULL, &error));
  latch_wait_drops(&received, ++calls);
  CHECK(strcmp(received.text, "scans/other") == 0);
  EXPECT(SST_OK, sst_scan_next_async(scan, key, NULL, &error));
  latch_wait_drops(&received, ++calls);
  CHECK(strcmp(received.text, "end") == 0 && received.calls == calls);
  sst_scan_free(scan);
  latch_destroy(&received);
}

static void on_entries(void *context, sst_status status, const sst_error *error, const sst_entries *entries) {
  char text[16];
  CHECK(error == NULL);
  snprintf(text, sizeof text, "%d%s", (int)sst_entries_len(entries), entries == NULL ? " end" : "");
  latch_call((latch *)context, status, NULL, text);
}

static void on_entry(void *context, sst_status status, const sst_error *error, const sst_entry *entry) {
  char text[64] = "end";
  CHECK(error == NULL);
  if (entry != NULL) copy_text(sst_entry_key(entry), text);
  latch_call((latch *)context, status, NULL, text);
}

// An entry of a scan is that of a GET, with its key.
static void check_entry(sst_client *client, const sst_entry *entry) {
  sst_error *error = NULL;
  sst_entry *got = NULL;
  sst_hlc *version = NULL, *same = NULL;
  int32_t order = 7;
  const sst_slice key = sst_entry_key(entry);
  EXPECT(SST_OK, sst_get(client, key.data, key.len, NULL, &got, &error));
  EXPECT(SST_OK, sst_entry_version(entry, &version, &error));
  EXPECT(SST_OK, sst_entry_version(got, &same, &error));
  EXPECT(SST_OK, sst_hlc_compare(version, same, &order, &error));
  CHECK(order == 0 && holds(sst_entry_value(entry), "x") && sst_entry_key(got).data == NULL);
  sst_hlc_free(version);
  sst_hlc_free(same);
  sst_entry_free(got);
}

static void entries_blocking(sst_client *client, int all) {
  sst_error *error = NULL;
  sst_scan_entries *scan = NULL;
  sst_entries *page = NULL;
  sst_entry *entry = NULL;
  sst_scan_options options;
  int found = 0;
  size_t i;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.fallback = 1;
  EXPECT(SST_OK, sst_scan_entries_new(client, TEXT("scans/part/*"), &options, &scan, &error));
  for (;;) {
    EXPECT(SST_OK, sst_scan_entries_next_page(scan, &page, &error));
    if (page == NULL) break;
    for (i = 0; i < sst_entries_len(page); ++i) {
      char text[64];
      EXPECT(SST_OK, sst_entries_at(page, i, &entry, &error));
      copy_text(sst_entry_key(entry), text);
      CHECK(strlen(text) == 15 && strncmp(text, "scans/part/", 11) == 0 && holds(sst_entry_value(entry), "x"));
      CHECK(sst_entry_expires_in_ms(entry) == SST_FOREVER);
      sst_entry_free(entry);
    }
    EXPECT(SST_INVALID_ARGUMENT, sst_entries_at(page, sst_entries_len(page), &entry, &error));
    CHECK(entry == NULL && !sst_entries_is_snapshot(page));
    found += (int)sst_entries_len(page);
    sst_entries_free(page);
  }
  CHECK(found == all);
  // There is nothing after the end.
  EXPECT(SST_OK, sst_scan_entries_next_page(scan, &page, &error));
  CHECK(page == NULL);
  sst_scan_entries_free(scan);

  EXPECT(SST_OK, sst_scan_entries_new(client, TEXT("scans/part/000[0-4]"), NULL, &scan, &error));
  for (found = 0;; ++found) {
    EXPECT(SST_OK, sst_scan_entries_next(scan, &entry, &error));
    if (entry == NULL) break;
    check_entry(client, entry);
    sst_entry_free(entry);
  }
  CHECK(found == 5);
  sst_scan_entries_free(scan);
}

static void remaining_time(sst_client *client) {
  sst_error *error = NULL;
  sst_scan_entries *scan = NULL;
  sst_entry *entry = NULL;
  sst_set_options options;
  uint64_t left;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.expires_in_ms = 60000;
  EXPECT(SST_OK, sst_set(client, TEXT("scanned/expiring"), TEXT("x"), &options, NULL, NULL, &error));
  EXPECT(SST_OK, sst_scan_entries_new(client, TEXT("scanned/*"), NULL, &scan, &error));
  EXPECT(SST_OK, sst_scan_entries_next(scan, &entry, &error));
  left = sst_entry_expires_in_ms(entry);
  CHECK(holds(sst_entry_key(entry), "scanned/expiring") && left > 0 && left <= 60000);
  sst_entry_free(entry);
  sst_scan_entries_free(scan);
}

static void entries_with_callbacks(sst_client *client, int all) {
  sst_error *error = NULL;
  sst_scan_entries *scan = NULL;
  latch received;
  const sst_on_entries page = {&received, on_entries, latch_drop};
  const sst_on_entry entry = {&received, on_entry, latch_drop};
  int found = 0, calls = 0;
  latch_init(&received);
  EXPECT(SST_OK, sst_scan_entries_new(client, TEXT("scans/*"), NULL, &scan, &error));
  do {
    EXPECT(SST_OK, sst_scan_entries_next_page_async(scan, page, NULL, &error));
    latch_wait_drops(&received, ++calls);
    found += atoi(received.text);
  } while (strstr(received.text, "end") == NULL);
  CHECK(found == all + 1);
  sst_scan_entries_free(scan);
  EXPECT(SST_OK, sst_scan_entries_new(client, TEXT("scans/oth?r"), NULL, &scan, &error));
  EXPECT(SST_OK, sst_scan_entries_next_async(scan, entry, NULL, &error));
  latch_wait_drops(&received, ++calls);
  CHECK(strcmp(received.text, "scans/other") == 0);
  EXPECT(SST_OK, sst_scan_entries_next_async(scan, entry, NULL, &error));
  latch_wait_drops(&received, ++calls);
  CHECK(strcmp(received.text, "end") == 0 && received.calls == calls);
  sst_scan_entries_free(scan);
  latch_destroy(&received);
}

static void patterns(void) {
  sst_error *error = NULL;
  bool matches = false;
  EXPECT(SST_OK, sst_pattern_matches(TEXT("many/[ab]"), TEXT("many/a"), &matches, &error));
  CHECK(matches);
  EXPECT(SST_OK, sst_pattern_matches(TEXT("many/[ab]"), TEXT("many/c"), &matches, &error));
  CHECK(!matches);
}

void suite_scans(void) {
  sst_client *client = new_client();
  const int keys = repetitions(1500);
  many_keys(client, keys);
  blocking(client, keys);
  with_callbacks(client, keys);
  entries_blocking(client, keys);
  entries_with_callbacks(client, keys);
  remaining_time(client);
  patterns();
  end_client(client);
}
