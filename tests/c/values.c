// The calls without locks, blocking.
#include "harness.h"

#include <string.h>

static void versions_and_names(void) {
  CHECK(strcmp(sst_version(), SST_VERSION) == 0);
  CHECK(strcmp(sst_status_name(SST_TIMED_OUT), "TimedOut") == 0);
  CHECK(strcmp(sst_status_name(12345), "unknown") == 0);
}

static void set_get_del(sst_client *client) {
  sst_error *error = NULL;
  sst_entry *entry = NULL, *clone = NULL;
  sst_hlc *one = NULL, *two = NULL, *read = NULL;
  sst_set_result set = SST_SET_FAILED;
  sst_del_result del = SST_DEL_FAILED;
  int32_t order = 7;

  EXPECT(SST_OK, sst_get(client, TEXT("values/key"), NULL, &entry, &error));
  CHECK(entry == NULL);
  EXPECT(SST_OK, sst_set(client, TEXT("values/key"), TEXT("one"), NULL, &set, &one, &error));
  CHECK(set == SST_SET_APPLIED && one != NULL);
  EXPECT(SST_OK, sst_get(client, TEXT("values/key"), NULL, &entry, &error));
  CHECK(holds(sst_entry_value(entry), "one"));
  EXPECT(SST_OK, sst_entry_version(entry, &read, &error));
  EXPECT(SST_OK, sst_hlc_compare(one, read, &order, &error));
  CHECK(order == 0);
  clone = sst_entry_clone(entry);
  sst_entry_free(entry);
  CHECK(holds(sst_entry_value(clone), "one"));
  CHECK(sst_entry_value(entry).data == NULL);
  sst_entry_free(clone);
  sst_hlc_free(read);

  EXPECT(SST_OK, sst_set(client, TEXT("values/key"), NULL, 0, NULL, NULL, &two, &error));
  EXPECT(SST_OK, sst_hlc_compare(one, two, &order, &error));
  CHECK(order < 0);
  EXPECT(SST_OK, sst_hlc_compare(two, one, &order, &error));
  CHECK(order > 0);
  EXPECT(SST_OK, sst_get(client, TEXT("values/key"), NULL, &entry, &error));
  CHECK(entry != NULL && sst_entry_value(entry).len == 0);
  sst_entry_free(entry);
  sst_hlc_free(one);
  sst_hlc_free(two);

  EXPECT(SST_OK, sst_vdel(client, TEXT("values/key"), TEXT("other"), NULL, &del, &error));
  CHECK(del == SST_DEL_MISMATCH);
  EXPECT(SST_OK, sst_vdel(client, TEXT("values/key"), NULL, 0, NULL, &del, &error));
  CHECK(del == SST_DEL_DELETED);
  EXPECT(SST_OK, sst_del(client, TEXT("values/key"), NULL, &del, &error));
  CHECK(del == SST_DEL_ABSENT);
  EXPECT(SST_OK, sst_set(client, TEXT("values/key"), TEXT("one"), NULL, NULL, NULL, &error));
  EXPECT(SST_OK, sst_del(client, TEXT("values/key"), NULL, &del, &error));
  CHECK(del == SST_DEL_DELETED);
}

static void conditions_and_options(sst_client *client) {
  sst_error *error = NULL;
  sst_set_result set = SST_SET_FAILED;
  sst_del_result del = SST_DEL_FAILED;
  sst_hlc *low = NULL, *high = NULL;
  sst_set_options options;
  sst_del_options del_options;
  sst_get_options get_options;
  sst_entry *entry = NULL;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  memset(&del_options, 0, sizeof del_options);
  del_options.size = sizeof del_options;
  memset(&get_options, 0, sizeof get_options);
  get_options.size = sizeof get_options;

  options.condition = SST_IF_ABSENT;
  options.persist = 1;
  options.retry = SST_RETRY_ALWAYS;
  options.timeout_ms = 20000;
  options.expires_in_ms = 600000;
  EXPECT(SST_OK, sst_set(client, TEXT("values/options"), TEXT("one"), &options, &set, &low, &error));
  CHECK(set == SST_SET_APPLIED);
  EXPECT(SST_OK, sst_set(client, TEXT("values/options"), TEXT("two"), &options, &set, NULL, &error));
  CHECK(set == SST_SET_NOT_APPLIED);
  options.condition = SST_IF_ABSENT_OR_EQUAL;
  EXPECT(SST_OK, sst_set(client, TEXT("values/options"), TEXT("one"), &options, &set, &high, &error));
  CHECK(set == SST_SET_APPLIED);

  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.fencing_token = high;
  EXPECT(SST_OK, sst_set(client, TEXT("values/fenced"), TEXT("one"), &options, &set, NULL, &error));
  options.fencing_token = low;
  EXPECT(SST_FENCING_TOKEN_LOWER, sst_set(client, TEXT("values/fenced"), TEXT("two"), &options, &set, NULL, &error));
  CHECK(set == SST_SET_FAILED);
  EXPECT(SST_FENCING_TOKEN_REQUIRED, sst_del(client, TEXT("values/fenced"), NULL, &del, &error));
  CHECK(del == SST_DEL_FAILED);
  del_options.fencing_token = high;
  EXPECT(SST_OK, sst_del(client, TEXT("values/fenced"), &del_options, &del, &error));
  sst_hlc_free(low);
  sst_hlc_free(high);
  get_options.timeout_ms = 20000;
  EXPECT(SST_OK, sst_get(client, TEXT("values/options"), &get_options, &entry, &error));
  sst_entry_free(entry);
}

static void many(sst_client *client) {
  sst_error *error = NULL;
  sst_entries *entries = NULL;
  sst_entry *entry = NULL;
  const sst_slice keys[3] = {{"many/b", 6}, {"many/absent", 11}, {"many/a", 6}};
  EXPECT(SST_OK, sst_set(client, TEXT("many/a"), TEXT("A"), NULL, NULL, NULL, &error));
  EXPECT(SST_OK, sst_set(client, TEXT("many/b"), TEXT("B"), NULL, NULL, NULL, &error));
  EXPECT(SST_OK, sst_get_many(client, keys, 3, NULL, &entries, &error));
  CHECK(sst_entries_len(entries) == 3);
  EXPECT(SST_OK, sst_entries_at(entries, 1, &entry, &error));
  CHECK(entry == NULL);
  EXPECT(SST_INVALID_ARGUMENT, sst_entries_at(entries, 3, &entry, &error));
  EXPECT(SST_OK, sst_entries_at(entries, 0, &entry, &error));
  sst_entries_free(entries);
  CHECK(holds(sst_entry_value(entry), "B"));
  sst_entry_free(entry);
  CHECK(sst_entries_len(entries) == 0);
  EXPECT(SST_OK, sst_get_many(client, NULL, 0, NULL, &entries, &error));
  CHECK(sst_entries_len(entries) == 0);
  sst_entries_free(entries);
}

static void scans(sst_client *client) {
  sst_error *error = NULL;
  sst_scan *scan = NULL;
  sst_bytes *key = NULL;
  sst_keys *keys = NULL;
  sst_slice last;
  size_t found = 0;
  bool matches = false;
  EXPECT(SST_OK, sst_scan_new(client, TEXT("many/?"), NULL, &scan, &error));
  for (;;) {
    EXPECT(SST_OK, sst_scan_next(scan, &key, &error));
    if (key == NULL) break;
    CHECK(holds(sst_bytes_slice(key), "many/a") || holds(sst_bytes_slice(key), "many/b"));
    sst_bytes_free(key);
    ++found;
  }
  CHECK(found == 2);
  sst_scan_free(scan);
  EXPECT(SST_OK, sst_scan_new(client, TEXT("many/*"), NULL, &scan, &error));
  found = 0;
  for (;;) {
    EXPECT(SST_OK, sst_scan_next_page(scan, &keys, &error));
    if (keys == NULL) break;
    found += sst_keys_len(keys);
    if (sst_keys_len(keys) > 0) {
      last = sst_keys_at(keys, sst_keys_len(keys) - 1);
      CHECK(last.len == 6);
      CHECK(sst_keys_at(keys, sst_keys_len(keys)).len == 0);
    }
    sst_keys_free(keys);
  }
  CHECK(found == 2);
  sst_scan_free(scan);
  EXPECT(SST_OK, sst_pattern_matches(TEXT("many/[ab]"), TEXT("many/a"), &matches, &error));
  CHECK(matches);
  EXPECT(SST_OK, sst_pattern_matches(TEXT("many/[ab]"), TEXT("many/c"), &matches, &error));
  CHECK(!matches);
}

typedef struct appending {
  latch told;
  const char *suffix;
} appending;

static uint32_t append(void *context, const sst_entry *old, sst_bytes **value) {
  appending *appending_ = (appending *)context;
  char text[64];
  sst_slice before = sst_entry_value(old);
  const char *suffix;
  size_t len;
  latch_call(&appending_->told, SST_OK, NULL, "");
  pthread_mutex_lock(&appending_->told.mutex);
  suffix = appending_->suffix;
  pthread_mutex_unlock(&appending_->told.mutex);
  len = strlen(suffix);
  CHECK(*value == NULL && before.len + len <= sizeof text);
  if (len == 0) return SST_KEEP;
  copy_text(before, text);
  memcpy(text + before.len, suffix, len);
  CHECK(sst_bytes_new(text, before.len + len, value, NULL) == SST_OK);
  return SST_STORE;
}

static uint32_t nothing(void *context, const sst_entry *old, sst_bytes **value) {
  (void)context, (void)old, (void)value;
  return SST_STORE;
}

static void then_append(appending *appending_, const char *suffix) {
  pthread_mutex_lock(&appending_->told.mutex);
  appending_->suffix = suffix;
  pthread_mutex_unlock(&appending_->told.mutex);
}

static void updates(sst_client *client) {
  sst_error *error = NULL;
  sst_entry *entry = NULL;
  sst_hlc *version = NULL;
  sst_update_result result = SST_UPDATE_FAILED;
  const sst_slice ab = {"ab", 2};
  appending appending_;
  sst_changer changer = {&appending_, append, latch_drop};
  const sst_changer broken = {&appending_, nothing, latch_drop};
  latch_init(&appending_.told);
  then_append(&appending_, "a");
  EXPECT(SST_OK, sst_update(client, TEXT("updates/key"), NULL, changer, &result, &version, &error));
  CHECK(result == SST_UPDATE_APPLIED && version != NULL);
  CHECK(appending_.told.drops == 1 && latch_calls(&appending_.told) >= 1);
  sst_hlc_free(version);
  then_append(&appending_, "b");
  EXPECT(SST_OK, sst_update(client, TEXT("updates/key"), NULL, changer, &result, NULL, &error));
  then_append(&appending_, "");
  EXPECT(SST_OK, sst_update(client, TEXT("updates/key"), NULL, changer, &result, &version, &error));
  CHECK(result == SST_UPDATE_UNCHANGED && version == NULL);
  EXPECT(SST_OK, sst_get(client, TEXT("updates/key"), NULL, &entry, &error));
  CHECK(holds(sst_entry_value(entry), "ab"));
  sst_entry_free(entry);
  EXPECT(SST_OK, sst_compare_and_set(client, TEXT("updates/key"), NULL, TEXT("new"), NULL, &result, NULL, &error));
  CHECK(result == SST_UPDATE_UNCHANGED);
  EXPECT(SST_OK, sst_compare_and_set(client, TEXT("updates/key"), &ab, TEXT("new"), NULL, &result, &version, &error));
  CHECK(result == SST_UPDATE_APPLIED && version != NULL);
  sst_hlc_free(version);
  // A changer that wants to store, and gives nothing to store.
  EXPECT(SST_OK, sst_update(client, TEXT("updates/key"), NULL, broken, &result, NULL, &error));
  CHECK(result == SST_UPDATE_UNCHANGED && appending_.told.drops == 4);
  changer.call = NULL;
  EXPECT(SST_INVALID_ARGUMENT, sst_update(client, TEXT("updates/key"), NULL, changer, &result, NULL, &error));
  CHECK(appending_.told.drops == 5);
  latch_destroy(&appending_.told);
}

static void about_the_client(sst_client *client) {
  sst_error *error = NULL;
  sst_bytes *id = NULL;
  sst_state state = SST_STATE_UNKNOWN;
  sst_counters counters;
  EXPECT(SST_OK, sst_client_id(client, &id, &error));
  CHECK(sst_bytes_slice(id).len > 0);
  sst_bytes_free(id);
  EXPECT(SST_OK, sst_client_state(client, &state, &error));
  CHECK(state == SST_CONNECTED);
  memset(&counters, 0xff, sizeof counters);
  counters.size = sizeof counters;
  EXPECT(SST_OK, sst_client_counters(client, &counters, &error));
  CHECK(counters.sent > 10 && counters.completed > 10 && counters.in_flight == 0 && counters.reconnects == 0);
}

static void settings(void) {
  sst_error *error = NULL;
  sst_client *client = NULL;
  sst_bytes *id = NULL;
  sst_settings settings_;
  memset(&settings_, 0, sizeof settings_);
  settings_.size = sizeof settings_;
  settings_.client_id = "tests-in-c";
  settings_.clean_start = SST_YES;
  settings_.keep_alive_s = 30;
  settings_.request_timeout_ms = 5000;
  EXPECT(SST_OK, sst_connect(server_url(), &settings_, &client, &error));
  EXPECT(SST_OK, sst_client_id(client, &id, &error));
  CHECK(holds(sst_bytes_slice(id), "tests-in-c"));
  sst_bytes_free(id);
  end_client(client);
}

void suite_values(void) {
  sst_client *client = new_client();
  versions_and_names();
  set_get_del(client);
  conditions_and_options(client);
  many(client);
  scans(client);
  updates(client);
  about_the_client(client);
  settings();
  end_client(client);
}
