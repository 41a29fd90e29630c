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

  EXPECT(SST_OK, sst_vdel(client, TEXT("values/key"), TEXT("other"), NULL, &del, NULL, &error));
  CHECK(del == SST_DEL_MISMATCH);
  EXPECT(SST_OK, sst_vdel(client, TEXT("values/key"), NULL, 0, NULL, &del, NULL, &error));
  CHECK(del == SST_DEL_DELETED);
  EXPECT(SST_OK, sst_del(client, TEXT("values/key"), NULL, &del, NULL, &error));
  CHECK(del == SST_DEL_ABSENT);
  EXPECT(SST_OK, sst_set(client, TEXT("values/key"), TEXT("one"), NULL, NULL, NULL, &error));
  EXPECT(SST_OK, sst_del(client, TEXT("values/key"), NULL, &del, NULL, &error));
  CHECK(del == SST_DEL_DELETED);
}

// Any bytes are a key and a value.
static void binary(sst_client *client) {
  sst_error *error = NULL;
  sst_entry *entry = NULL;
  sst_slice value;
  EXPECT(SST_OK, sst_set(client, "\0\xff", 2, "\0\x80", 2, NULL, NULL, NULL, &error));
  EXPECT(SST_OK, sst_get(client, "\0\xff", 2, NULL, &entry, &error));
  value = sst_entry_value(entry);
  CHECK(value.len == 2 && ((const char *)value.data)[0] == '\0' && ((const unsigned char *)value.data)[1] == 0x80);
  sst_entry_free(entry);
}

static void timestamps(void) {
  sst_error *error = NULL;
  sst_hlc *hlc = NULL, *clone;
  EXPECT(SST_OK, sst_hlc_parse(TEXT("7:9:node"), &hlc, &error));
  clone = sst_hlc_clone(hlc);
  sst_hlc_free(hlc);
  CHECK(sst_hlc_counter(clone) == 9 && strcmp(sst_hlc_text(clone), "000000000000007:00009:node") == 0);
  sst_hlc_free(clone);
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
  EXPECT(SST_FENCING_TOKEN_REQUIRED, sst_del(client, TEXT("values/fenced"), NULL, &del, NULL, &error));
  CHECK(del == SST_DEL_FAILED);
  del_options.fencing_token = high;
  EXPECT(SST_OK, sst_del(client, TEXT("values/fenced"), &del_options, &del, NULL, &error));
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
  const sst_slice keys[3] = {SST_SLICE("many/b"), SST_SLICE("many/absent"), SST_SLICE("many/a")};
  EXPECT(SST_OK, sst_set(client, TEXT("many/a"), TEXT("A"), NULL, NULL, NULL, &error));
  EXPECT(SST_OK, sst_set(client, TEXT("many/b"), TEXT("B"), NULL, NULL, NULL, &error));
  EXPECT(SST_OK, sst_get_many(client, keys, 3, NULL, &entries, &error));
  CHECK(sst_entries_len(entries) == 3 && sst_entries_is_snapshot(entries));
  EXPECT(SST_OK, sst_entries_at(entries, 1, &entry, &error));
  CHECK(entry == NULL);
  EXPECT(SST_INVALID_ARGUMENT, sst_entries_at(entries, 3, &entry, &error));
  EXPECT(SST_OK, sst_entries_at(entries, 0, &entry, &error));
  sst_entries_free(entries);
  CHECK(holds(sst_entry_value(entry), "B"));
  sst_entry_free(entry);
  CHECK(sst_entries_len(entries) == 0);
  EXPECT(SST_OK, sst_get(client, SST_BYTES(keys[2]), NULL, &entry, &error));
  CHECK(entry != NULL && holds(sst_entry_value(entry), "A"));
  sst_entry_free(entry);
  EXPECT(SST_OK, sst_get_many(client, NULL, 0, NULL, &entries, &error));
  CHECK(sst_entries_len(entries) == 0 && sst_entries_is_snapshot(entries));
  sst_entries_free(entries);
}

// Each has a result of its own, and one that fails ends no other.
static void write_many(sst_client *client) {
  sst_error *error = NULL;
  sst_results *results = NULL;
  sst_entry *entry = NULL;
  sst_hlc *version = NULL;
  sst_set_result set = SST_SET_FAILED;
  sst_del_result del = SST_DEL_FAILED;
  const sst_pair pairs[3] = {{SST_SLICE("wrote/a"), SST_SLICE("A")}, {{NULL, 0}, SST_SLICE("x")}, {SST_SLICE("wrote/c"), {NULL, 0}}};
  const sst_slice keys[3] = {{"wrote/none", 10}, {NULL, 0}, {"wrote/a", 7}};
  EXPECT(SST_OK, sst_set_many(client, pairs, 3, NULL, &results, &error));
  CHECK(sst_results_len(results) == 3 && sst_results_failed(results) == 1);
  EXPECT(SST_OK, sst_results_set_at(results, 0, &set, &version, &error));
  CHECK(set == SST_SET_APPLIED && version != NULL);
  sst_hlc_free(version);
  EXPECT(SST_INVALID_ARGUMENT, sst_results_set_at(results, 1, &set, &version, &error));
  CHECK(set == SST_SET_FAILED && version == NULL);
  EXPECT(SST_OK, sst_results_set_at(results, 2, &set, NULL, &error));
  CHECK(set == SST_SET_APPLIED);
  EXPECT(SST_INVALID_ARGUMENT, sst_results_set_at(results, 3, &set, NULL, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_results_del_at(results, 0, &del, NULL, &error));
  sst_results_free(results);
  EXPECT(SST_OK, sst_get(client, TEXT("wrote/a"), NULL, &entry, &error));
  CHECK(holds(sst_entry_value(entry), "A"));
  sst_entry_free(entry);

  EXPECT(SST_OK, sst_del_many(client, keys, 3, NULL, &results, &error));
  CHECK(sst_results_len(results) == 3 && sst_results_failed(results) == 1);
  EXPECT(SST_OK, sst_results_del_at(results, 0, &del, NULL, &error));
  CHECK(del == SST_DEL_ABSENT);
  EXPECT(SST_INVALID_ARGUMENT, sst_results_del_at(results, 1, &del, NULL, &error));
  CHECK(del == SST_DEL_FAILED);
  EXPECT(SST_OK, sst_results_del_at(results, 2, &del, NULL, &error));
  CHECK(del == SST_DEL_DELETED);
  EXPECT(SST_INVALID_ARGUMENT, sst_results_set_at(results, 0, &set, NULL, &error));
  sst_results_free(results);
  EXPECT(SST_OK, sst_set_many(client, NULL, 0, NULL, &results, &error));
  CHECK(sst_results_len(results) == 0);
  sst_results_free(results);
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
  CHECK(counters.sent > 10 && counters.completed > 10 && counters.completed == counters.sent);
  CHECK(counters.in_flight == 0 && counters.queued == 0 && counters.reconnects == 0);
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
  settings_.keep_alive_ms = 30000;
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
  binary(client);
  timestamps();
  conditions_and_options(client);
  many(client);
  write_many(client);
  about_the_client(client);
  settings();
  end_client(client);
}
