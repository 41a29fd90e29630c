// What not every store can do: conditions on versions, and the time that a key has left.
#include "versions.h"

static void set_under_a_version(sst_client *client) {
  sst_error *error = NULL;
  sst_hlc *one = set(client, "ext/key", "one"), *two = NULL, *now = NULL;
  sst_set_result result = SST_SET_FAILED;
  sst_set_options options = set_options();
  options.if_version = one;
  EXPECT(SST_OK, sst_set(client, TEXT("ext/key"), TEXT("two"), &options, &result, &two, &error));
  CHECK(result == SST_SET_APPLIED && two != NULL);
  EXPECT(SST_OK, sst_set(client, TEXT("ext/key"), TEXT("three"), &options, &result, &now, &error));
  CHECK(result == SST_SET_NOT_APPLIED && is_same(now, two) && has(client, "ext/key", "two"));
  EXPECT(SST_OK, sst_set(client, TEXT("ext/none"), TEXT("x"), &options, &result, &now, &error));
  CHECK(result == SST_SET_NOT_APPLIED && now == NULL && has(client, "ext/none", NULL));
  // It may expire, and needs its fencing token.
  options.if_version = two;
  options.expires_in_ms = 60000;
  options.fencing_token = two;
  EXPECT(SST_OK, sst_set(client, TEXT("ext/key"), TEXT("three"), &options, &result, NULL, &error));
  CHECK(result == SST_SET_APPLIED);
  options.fencing_token = NULL;
  EXPECT(SST_FENCING_TOKEN_REQUIRED, sst_set(client, TEXT("ext/key"), TEXT("four"), &options, &result, NULL, &error));
  // One condition, of one handle that is good.
  options.condition = SST_IF_ABSENT;
  EXPECT(SST_INVALID_ARGUMENT, sst_set(client, TEXT("ext/key"), TEXT("x"), &options, &result, &now, &error));
  options.condition = SST_ALWAYS;
  options.if_version = (const sst_hlc *)(const void *)client;
  EXPECT(SST_INVALID_HANDLE, sst_set(client, TEXT("ext/key"), TEXT("x"), &options, &result, &now, &error));
  options.if_version = one;
  sst_hlc_free(one);
  EXPECT(SST_INVALID_HANDLE, sst_set(client, TEXT("ext/key"), TEXT("x"), &options, &result, &now, &error));
  options.if_version = NULL;
  options.reserved = 1;
  EXPECT(SST_INVALID_ARGUMENT, sst_set(client, TEXT("ext/key"), TEXT("x"), &options, &result, &now, &error));
  CHECK(result == SST_SET_FAILED && now == NULL);
  sst_hlc_free(two);
}

static void del_under_a_version(sst_client *client) {
  sst_error *error = NULL;
  sst_hlc *old = set(client, "ext/del", "one"), *one = set(client, "ext/del", "one"), *now = NULL;
  sst_del_result result = SST_DEL_FAILED;
  sst_del_options options = del_options();
  options.if_version = old;
  EXPECT(SST_OK, sst_del(client, TEXT("ext/del"), &options, &result, &now, &error));
  CHECK(result == SST_DEL_MISMATCH && is_same(now, one));
  EXPECT(SST_OK, sst_vdel(client, TEXT("ext/del"), TEXT("one"), &options, &result, &now, &error));
  CHECK(result == SST_DEL_MISMATCH && is_same(now, one));
  options.if_version = one;
  EXPECT(SST_OK, sst_vdel(client, TEXT("ext/del"), TEXT("two"), &options, &result, &now, &error));
  CHECK(result == SST_DEL_MISMATCH && is_same(now, one) && has(client, "ext/del", "one"));
  EXPECT(SST_OK, sst_vdel(client, TEXT("ext/del"), TEXT("one"), &options, &result, &now, &error));
  CHECK(result == SST_DEL_DELETED && !is_same(now, one));
  // An absent key lacks the version, which is no success.
  EXPECT(SST_OK, sst_del(client, TEXT("ext/del"), &options, &result, &now, &error));
  CHECK(result == SST_DEL_ABSENT && now == NULL);
  EXPECT(SST_OK, sst_vdel(client, TEXT("ext/del"), TEXT("one"), &options, &result, &now, &error));
  CHECK(result == SST_DEL_ABSENT && now == NULL);
  sst_hlc_free(one);
  one = set(client, "ext/del", "one");
  options.if_version = one;
  EXPECT(SST_OK, sst_del(client, TEXT("ext/del"), &options, &result, &now, &error));
  CHECK(result == SST_DEL_DELETED && !is_same(now, one));
  EXPECT(SST_OK, sst_del(client, TEXT("ext/del"), NULL, &result, &now, &error));
  CHECK(result == SST_DEL_ABSENT && now == NULL);
  options.if_version = (const sst_hlc *)(const void *)client;
  EXPECT(SST_INVALID_HANDLE, sst_del(client, TEXT("ext/del"), &options, &result, &now, &error));
  EXPECT(SST_INVALID_HANDLE, sst_vdel(client, TEXT("ext/del"), TEXT("x"), &options, &result, &now, &error));
  options.if_version = NULL;
  options.reserved_2 = 1;
  EXPECT(SST_INVALID_ARGUMENT, sst_del(client, TEXT("ext/del"), &options, &result, &now, &error));
  options.reserved_2 = 0;
  options.reserved = 1;
  EXPECT(SST_INVALID_ARGUMENT, sst_del(client, TEXT("ext/del"), &options, &result, &now, &error));
  sst_hlc_free(old);
  sst_hlc_free(one);
}

static void under_a_lock(sst_client *client) {
  sst_error *error = NULL;
  sst_guard *guard = NULL;
  sst_hlc *old = parse("7:1:StateStore"), *one = NULL, *now = NULL;
  sst_set_result applied = SST_SET_FAILED;
  sst_del_result result = SST_DEL_FAILED;
  sst_set_options set_ = set_options();
  sst_del_options del = del_options();
  EXPECT(SST_OK, sst_lock(client, TEXT("ext/lock"), NULL, &guard, &error));
  EXPECT(SST_OK, sst_guard_set(guard, TEXT("ext/guarded"), TEXT("one"), NULL, &applied, &one, &error));
  set_.if_version = old;
  EXPECT(SST_OK, sst_guard_set(guard, TEXT("ext/guarded"), TEXT("two"), &set_, &applied, &now, &error));
  CHECK(applied == SST_SET_NOT_APPLIED && is_same(now, one));
  del.if_version = old;
  EXPECT(SST_OK, sst_guard_del(guard, TEXT("ext/guarded"), &del, &result, &now, &error));
  CHECK(result == SST_DEL_MISMATCH && is_same(now, one));
  EXPECT(SST_OK, sst_guard_vdel(guard, TEXT("ext/guarded"), TEXT("one"), &del, &result, &now, &error));
  CHECK(result == SST_DEL_MISMATCH && is_same(now, one));
  del.if_version = one;
  EXPECT(SST_OK, sst_guard_vdel(guard, TEXT("ext/guarded"), TEXT("one"), &del, &result, &now, &error));
  CHECK(result == SST_DEL_DELETED && !is_same(now, one));
  sst_guard_free(guard);
  sst_hlc_free(old);
  sst_hlc_free(one);
}

// A version is one of one key.
static void many(sst_client *client) {
  sst_error *error = NULL;
  sst_results *results = NULL;
  sst_hlc *one = set(client, "ext/many", "one"), *now = NULL;
  const sst_pair pair = {{"ext/many", 8}, {"two", 3}};
  const sst_slice keys[2] = {{"ext/many", 8}, {"ext/none", 8}};
  sst_set_options set_ = set_options();
  sst_del_options del = del_options();
  sst_del_result result = SST_DEL_FAILED;
  set_.if_version = one;
  del.if_version = one;
  EXPECT(SST_OK, sst_set_many(client, &pair, 1, &set_, &results, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_results_set_at(results, 0, NULL, NULL, &error));
  sst_results_free(results);
  EXPECT(SST_OK, sst_del_many(client, keys, 1, &del, &results, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_results_del_at(results, 0, NULL, NULL, &error));
  sst_results_free(results);
  EXPECT(SST_OK, sst_del_many(client, keys, 2, NULL, &results, &error));
  EXPECT(SST_OK, sst_results_del_at(results, 0, &result, &now, &error));
  CHECK(result == SST_DEL_DELETED && !is_same(now, one));
  EXPECT(SST_OK, sst_results_del_at(results, 1, &result, &now, &error));
  CHECK(result == SST_DEL_ABSENT && now == NULL);
  sst_results_free(results);
  sst_hlc_free(one);
}

static void remaining_time(sst_client *client) {
  sst_error *error = NULL;
  sst_entry *entry = NULL;
  sst_entries *entries = NULL;
  sst_get_options ask = remaining();
  sst_set_options minute = set_options();
  const sst_slice keys[3] = {{"ext/minute", 10}, {"ext/stays", 9}, {"ext/none", 8}};
  uint64_t left;
  minute.expires_in_ms = 60000;
  EXPECT(SST_OK, sst_set(client, TEXT("ext/minute"), TEXT("x"), &minute, NULL, NULL, &error));
  sst_hlc_free(set(client, "ext/stays", "x"));
  EXPECT(SST_OK, sst_get(client, TEXT("ext/minute"), &ask, &entry, &error));
  left = sst_entry_expires_in_ms(entry);
  CHECK(left > 0 && left <= 60000 && holds(sst_entry_value(entry), "x"));
  sst_entry_free(entry);
  CHECK(sst_entry_expires_in_ms(entry) == SST_UNKNOWN_TIME);
  EXPECT(SST_OK, sst_get(client, TEXT("ext/minute"), NULL, &entry, &error));
  // Written back, it does not make the key permanent.
  minute.expires_in_ms = sst_entry_expires_in_ms(entry);
  CHECK(minute.expires_in_ms == SST_UNKNOWN_TIME);
  EXPECT(SST_INVALID_ARGUMENT, sst_set(client, TEXT("ext/minute"), TEXT("x"), &minute, NULL, NULL, &error));
  sst_entry_free(entry);
  EXPECT(SST_OK, sst_get_many(client, keys, 3, &ask, &entries, &error));
  CHECK(!sst_entries_is_snapshot(entries));
  EXPECT(SST_OK, sst_entries_at(entries, 0, &entry, &error));
  left = sst_entry_expires_in_ms(entry);
  CHECK(left > 0 && left <= 60000);
  sst_entry_free(entry);
  EXPECT(SST_OK, sst_entries_at(entries, 1, &entry, &error));
  CHECK(sst_entry_expires_in_ms(entry) == SST_FOREVER);
  sst_entry_free(entry);
  EXPECT(SST_OK, sst_entries_at(entries, 2, &entry, &error));
  CHECK(entry == NULL);
  sst_entries_free(entries);
  ask.eventual = 1;
  EXPECT(SST_OK, sst_get(client, TEXT("ext/minute"), &ask, &entry, &error));
  left = sst_entry_expires_in_ms(entry);
  CHECK(left > 0 && left <= 60000 && holds(sst_entry_value(entry), "x"));
  sst_entry_free(entry);
}

static void capabilities(sst_client *client) {
  sst_error *error = NULL;
  sst_capabilities all;
  struct {
    size_t size;
    uint32_t conditions, remaining_time;
  } fewer;
  struct {
    sst_capabilities known;
    uint64_t of_a_later_version;
  } more;
  all.size = sizeof all;
  EXPECT(SST_OK, sst_client_capabilities(client, &all, &error));
  CHECK(all.conditions == 1 && all.remaining_time == 1 && all.transactions == MOST && all.eventual == 1 && all.max_get_keys == MOST);
  CHECK(all.scan_values == 1 && all.observe_matching == 1);
  memset(&fewer, 0, sizeof fewer);
  fewer.size = sizeof fewer;
  EXPECT(SST_OK, sst_client_capabilities(client, (sst_capabilities *)(void *)&fewer, &error));
  CHECK(fewer.conditions == 1 && fewer.remaining_time == 1);
  memset(&more, 0xff, sizeof more);
  more.known.size = sizeof more;
  EXPECT(SST_OK, sst_client_capabilities(client, &more.known, &error));
  CHECK(more.known.transactions == MOST && more.of_a_later_version == 0);
  all.size = 1;
  EXPECT(SST_INVALID_ARGUMENT, sst_client_capabilities(client, &all, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_client_capabilities(client, NULL, &error));
}

static void on_capabilities(void *context, sst_status status, const sst_error *error, const sst_capabilities *capabilities) {
  (void)error;
  CHECK((capabilities != NULL) == (status == SST_OK));
  CHECK(capabilities == NULL || (capabilities->size == sizeof *capabilities && capabilities->transactions == MOST));
  latch_call((latch *)context, status, NULL, "");
}

static void capabilities_in_the_background(void) {
  sst_error *error = NULL;
  sst_client *client = new_client();
  latch done;
  const sst_on_capabilities capable = {&done, on_capabilities, latch_drop};
  latch_init(&done);
  // Whoever asks first, and whoever asks again.
  EXPECT(SST_OK, sst_client_capabilities_async(client, capable, NULL, &error));
  latch_wait_drops(&done, 1);
  EXPECT(SST_OK, sst_client_capabilities_async(client, capable, NULL, &error));
  latch_wait_drops(&done, 2);
  CHECK(done.calls == 2 && done.status == SST_OK);
  end_client(client);
  latch_destroy(&done);
}

void suite_conditions(void) {
  sst_client *client = new_client();
  capabilities(client);
  set_under_a_version(client);
  del_under_a_version(client);
  under_a_lock(client);
  many(client);
  remaining_time(client);
  end_client(client);
  capabilities_in_the_background();
}
