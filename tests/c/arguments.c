// Arguments that cannot be: an error with a message, never a crash, and results that are NULL or zero.
#include "harness.h"

#include <stdlib.h>
#include <string.h>

static void set_variable(const char *name, const char *value) {
#ifdef _WIN32
  CHECK(_putenv_s(name, value) == 0);
#else
  CHECK(setenv(name, value, 1) == 0);
#endif
}

static void unset_variable(const char *name) {
#ifdef _WIN32
  set_variable(name, "");
#else
  unsetenv(name);
#endif
}

static void urls(void) {
  sst_error *error = NULL;
  sst_client *client = (sst_client *)(uintptr_t)1;
  size_t i;
  static const char *const bad[] = {
      "", "mqtt://", "http://127.0.0.1", "127.0.0.1:1883", "mqtt://127.0.0.1:99999", "mqtt://127.0.0.1?unknown=1",
      "mqtt://\xff\xfe", "mqtt://127.0.0.1:1?client_id=\xc3\x28", "mqtt://host?keep_alive=x", "unix://",
  };
  for (i = 0; i < sizeof bad / sizeof bad[0]; ++i) {
    EXPECT(SST_INVALID_SETTINGS, sst_connect(bad[i], NULL, &client, &error));
    CHECK(client == NULL);
  }
  // Nobody listens on port 1.
  EXPECT(SST_UNREACHABLE, sst_connect("mqtt://127.0.0.1:1", NULL, &client, &error));
  CHECK(client == NULL);
  EXPECT(SST_INVALID_ARGUMENT, sst_connect(server_url(), NULL, NULL, &error));
  // Without a URL it is the environment that counts, and there is nothing in it.
  unset_variable("AIO_BROKER_HOSTNAME");
  EXPECT(SST_INVALID_SETTINGS, sst_connect(NULL, NULL, &client, &error));
  set_variable("AIO_BROKER_HOSTNAME", "127.0.0.1");
  set_variable("AIO_BROKER_TCP_PORT", "1");
  set_variable("AIO_MQTT_USE_TLS", "false");
  EXPECT(SST_UNREACHABLE, sst_connect(NULL, NULL, &client, &error));
  CHECK(client == NULL);
}

static void settings(void) {
  sst_error *error = NULL;
  sst_client *client = NULL;
  sst_settings settings_;
  memset(&settings_, 0, sizeof settings_);
  settings_.size = sizeof settings_;
  settings_.client_id = "\xff";
  EXPECT(SST_INVALID_ARGUMENT, sst_connect(server_url(), &settings_, &client, &error));
  settings_.client_id = "a+b";
  EXPECT(SST_INVALID_SETTINGS, sst_connect(server_url(), &settings_, &client, &error));
  settings_.client_id = NULL;
  settings_.ca_file = "/nowhere/at/all";
  EXPECT(SST_INVALID_SETTINGS, sst_connect(server_url(), &settings_, &client, &error));
  // A file and a text exclude each other, and a text that is none is noticed before anything is sent.
  settings_.tls = SST_YES;
  settings_.ca_pem = "text";
  settings_.ca_pem_len = 4;
  EXPECT(SST_INVALID_SETTINGS, sst_connect(server_url(), &settings_, &client, &error));
  settings_.ca_file = NULL;
  EXPECT(SST_INVALID_SETTINGS, sst_connect(server_url(), &settings_, &client, &error));
  settings_.ca_pem = NULL;
  EXPECT(SST_INVALID_ARGUMENT, sst_connect(server_url(), &settings_, &client, &error));
  settings_.ca_pem_len = 0;
  settings_.cert_pem = "";
  EXPECT(SST_INVALID_SETTINGS, sst_connect(server_url(), &settings_, &client, &error));
  settings_.cert_pem = NULL;
  settings_.key_pem = "text";
  settings_.key_pem_len = 4;
  EXPECT(SST_INVALID_SETTINGS, sst_connect(server_url(), &settings_, &client, &error));
  settings_.key_pem = NULL;
  settings_.key_pem_len = 0;
  settings_.tls = SST_DEFAULT;
  settings_.lazy = 99;
  EXPECT(SST_INVALID_ARGUMENT, sst_connect(server_url(), &settings_, &client, &error));
  settings_.lazy = SST_DEFAULT;
  settings_.reserved = 1;
  EXPECT(SST_INVALID_ARGUMENT, sst_connect(server_url(), &settings_, &client, &error));
  settings_.reserved = 0;
  settings_.reconnect_delay_min_ms = 2;
  settings_.reconnect_delay_max_ms = 1;
  EXPECT(SST_INVALID_ARGUMENT, sst_connect(server_url(), &settings_, &client, &error));
  settings_.reconnect_delay_min_ms = 0;
  settings_.reconnect_delay_max_ms = 0;
  settings_.tls = 99;
  EXPECT(SST_INVALID_ARGUMENT, sst_connect(server_url(), &settings_, &client, &error));
  settings_.tls = 0;
  settings_.password_len = 4;
  EXPECT(SST_INVALID_ARGUMENT, sst_connect(server_url(), &settings_, &client, &error));
  settings_.password_len = 0;
  settings_.password_file = "/nowhere/at/all";
  settings_.user_name = "ann";
  EXPECT(SST_INVALID_SETTINGS, sst_connect(server_url(), &settings_, &client, &error));
}

// Structs of an older and a newer header.
static void sizes(sst_client *client) {
  sst_error *error = NULL;
  sst_set_result set = SST_SET_FAILED;
  struct {
    sst_set_options known;
    uint64_t of_a_later_version;
  } larger;
  struct {
    size_t size;
    uint32_t condition;
  } smaller;
  struct {
    size_t size;
    uint64_t sent;
  } short_counters;
  struct {
    sst_counters known;
    uint64_t of_a_later_version;
  } long_counters;
  sst_set_options options;
  sst_update_options update;
  const sst_slice nothing = {"nothing", 7};

  memset(&larger, 0, sizeof larger);
  larger.known.size = sizeof larger;
  larger.known.condition = SST_IF_ABSENT;
  EXPECT(SST_OK, sst_set(client, TEXT("sizes"), TEXT("x"), &larger.known, &set, NULL, &error));
  EXPECT(SST_OK, sst_set(client, TEXT("sizes"), TEXT("x"), &larger.known, &set, NULL, &error));
  CHECK(set == SST_SET_NOT_APPLIED);
  larger.of_a_later_version = 1;
  EXPECT(SST_INVALID_ARGUMENT, sst_set(client, TEXT("sizes"), TEXT("x"), &larger.known, &set, NULL, &error));
  CHECK(set == SST_SET_FAILED);

  // Allocated alone, so that memory checkers notice reads beyond it.
  memset(&smaller, 0, sizeof smaller);
  smaller.size = sizeof smaller;
  smaller.condition = SST_IF_ABSENT;
  {
    void *exact = malloc(sizeof smaller);
    CHECK(exact != NULL);
    memcpy(exact, &smaller, sizeof smaller);
    EXPECT(SST_OK, sst_set(client, TEXT("sizes"), TEXT("y"), (const sst_set_options *)exact, &set, NULL, &error));
    free(exact);
  }
  CHECK(set == SST_SET_NOT_APPLIED);

  memset(&options, 0, sizeof options);
  EXPECT(SST_INVALID_ARGUMENT, sst_set(client, TEXT("sizes"), TEXT("x"), &options, &set, NULL, &error));
  options.size = 3;
  EXPECT(SST_INVALID_ARGUMENT, sst_set(client, TEXT("sizes"), TEXT("x"), &options, &set, NULL, &error));
  // What no struct has was never set, and says nothing of the memory that may be read.
  options.size = SIZE_MAX;
  EXPECT(SST_INVALID_ARGUMENT, sst_set(client, TEXT("sizes"), TEXT("x"), &options, &set, NULL, &error));
  options.size = 1 << 20;
  EXPECT(SST_INVALID_ARGUMENT, sst_set(client, TEXT("sizes"), TEXT("x"), &options, &set, NULL, &error));
  options.size = sizeof options - 1;
  EXPECT(SST_INVALID_ARGUMENT, sst_set(client, TEXT("sizes"), TEXT("x"), &options, &set, NULL, &error));
  options.size = sizeof options;
  options.condition = 99;
  EXPECT(SST_INVALID_ARGUMENT, sst_set(client, TEXT("sizes"), TEXT("x"), &options, &set, NULL, &error));
  options.condition = 0;
  options.retry = 99;
  EXPECT(SST_INVALID_ARGUMENT, sst_set(client, TEXT("sizes"), TEXT("x"), &options, &set, NULL, &error));

  memset(&update, 0, sizeof update);
  update.size = sizeof update;
  EXPECT(SST_OK, sst_compare_and_set(client, TEXT("sizes"), &nothing, TEXT("x"), &update, NULL, NULL, &error));
  update.reserved = 1;
  EXPECT(SST_INVALID_ARGUMENT, sst_compare_and_set(client, TEXT("sizes"), &nothing, TEXT("x"), &update, NULL, NULL, &error));

  memset(&short_counters, 0, sizeof short_counters);
  short_counters.size = sizeof short_counters;
  EXPECT(SST_OK, sst_client_counters(client, (sst_counters *)(void *)&short_counters, &error));
  CHECK(short_counters.sent > 0);
  memset(&long_counters, 0xff, sizeof long_counters);
  long_counters.known.size = sizeof long_counters;
  EXPECT(SST_OK, sst_client_counters(client, &long_counters.known, &error));
  CHECK(long_counters.known.sent > 0 && long_counters.of_a_later_version == 0);
  long_counters.known.size = 1 << 20;
  EXPECT(SST_INVALID_ARGUMENT, sst_client_counters(client, &long_counters.known, &error));
  long_counters.known.size = 1;
  EXPECT(SST_INVALID_ARGUMENT, sst_client_counters(client, &long_counters.known, &error));
}

static void bytes(sst_client *client) {
  sst_error *error = NULL;
  sst_entry *entry = NULL;
  sst_entries *entries = NULL;
  sst_results *results = NULL;
  sst_bytes *made = NULL;
  sst_hlc *hlc = (sst_hlc *)(uintptr_t)1;
  sst_observer *observer = NULL;
  sst_scan *scan = NULL;
  sst_lease *lease = NULL;
  sst_guard *guard = NULL;
  sst_election *election = NULL;
  bool matches = true;
  const sst_slice bad = {NULL, 4};
  const sst_pair bad_key = {{NULL, 4}, {"x", 1}}, bad_value = {{"x", 1}, {NULL, 4}};
  EXPECT(SST_INVALID_ARGUMENT, sst_get(client, NULL, 0, NULL, &entry, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_get(client, NULL, 5, NULL, &entry, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_get(client, "x", SIZE_MAX, NULL, &entry, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_set(client, TEXT("key"), NULL, 5, NULL, NULL, NULL, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_del(client, NULL, 5, NULL, NULL, NULL, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_vdel(client, TEXT("key"), NULL, 5, NULL, NULL, NULL, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_get_many(client, &bad, 1, NULL, &entries, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_get_many(client, NULL, 1, NULL, &entries, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_get_many(client, &bad, SIZE_MAX / 2, NULL, &entries, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_set_many(client, &bad_key, 1, NULL, &results, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_set_many(client, &bad_value, 1, NULL, &results, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_set_many(client, NULL, 1, NULL, &results, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_set_many(client, NULL, 0, NULL, NULL, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_del_many(client, &bad, 1, NULL, &results, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_del_many(client, NULL, 0, NULL, NULL, &error));
  CHECK(entries == NULL && entry == NULL && results == NULL);
  EXPECT(SST_INVALID_ARGUMENT, sst_observe(client, NULL, 5, NULL, &observer, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_scan_new(client, NULL, 5, NULL, &scan, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_lease_new(client, NULL, 0, NULL, &lease, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_lock(client, NULL, 0, NULL, &guard, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_election_new(client, NULL, 0, NULL, &election, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_compare_and_set(client, TEXT("key"), &bad, TEXT("x"), NULL, NULL, NULL, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_bytes_new(NULL, 3, &made, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_hlc_parse(TEXT("no timestamp"), &hlc, &error));
  CHECK(hlc == NULL);
  EXPECT(SST_INVALID_ARGUMENT, sst_pattern_matches(TEXT("["), NULL, 3, &matches, &error));
  CHECK(!matches);
}

// NULL where something is needed: handles and places for results.
static void nulls(sst_client *client) {
  sst_error *error = NULL;
  sst_entry *entry = NULL;
  sst_hlc *hlc = NULL;
  int fd = 7;
  int32_t order = 7;
  EXPECT(SST_INVALID_ARGUMENT, sst_get(NULL, TEXT("key"), NULL, &entry, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_get(client, TEXT("key"), NULL, NULL, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_get_many(client, NULL, 0, NULL, NULL, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_set(NULL, TEXT("key"), TEXT("x"), NULL, NULL, NULL, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_del(NULL, TEXT("key"), NULL, NULL, NULL, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_vdel(NULL, TEXT("key"), TEXT("x"), NULL, NULL, NULL, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_observe(client, TEXT("key"), NULL, NULL, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_observer_next(NULL, 0, NULL, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_observer_fd(NULL, &fd, &error));
  CHECK(fd == -1);
  EXPECT(SST_INVALID_ARGUMENT, sst_scan_new(client, TEXT("*"), NULL, NULL, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_scan_next(NULL, NULL, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_scan_next_page(NULL, NULL, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_client_close(NULL, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_client_id(client, NULL, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_client_state(client, NULL, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_client_counters(client, NULL, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_operation_cancel(NULL, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_subscription_cancel(NULL, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_lease_new(client, TEXT("key"), NULL, NULL, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_lease_acquire(NULL, NULL, NULL, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_lock(client, TEXT("key"), NULL, NULL, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_guard_check(NULL, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_guard_token(NULL, &hlc, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_guard_release(NULL, SST_FOREVER, NULL, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_election_new(client, TEXT("key"), NULL, NULL, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_election_campaign(NULL, TEXT("x"), NULL, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_election_leader(NULL, NULL, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_bytes_new("x", 1, NULL, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_hlc_parse(TEXT("1:1:a"), NULL, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_hlc_compare(NULL, NULL, &order, &error));
  CHECK(order == 0);
  EXPECT(SST_INVALID_ARGUMENT, sst_entry_version(NULL, &hlc, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_entries_at(NULL, 0, &entry, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_pattern_matches(TEXT("*"), TEXT("x"), NULL, &error));
  // Who does not want to know why gives no place for it.
  CHECK(sst_get(NULL, TEXT("key"), NULL, &entry, NULL) == SST_INVALID_ARGUMENT);
}

static void leases(sst_client *client) {
  sst_error *error = NULL;
  sst_lease *lease = NULL;
  sst_lease_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.duration_ms = 99;
  EXPECT(SST_INVALID_ARGUMENT, sst_lease_new(client, TEXT("door"), &options, &lease, &error));
  options.duration_ms = 1000;
  options.renewal_ms = 1000;
  EXPECT(SST_INVALID_ARGUMENT, sst_lease_new(client, TEXT("door"), &options, &lease, &error));
  options.renewal_ms = 0;
  options.holder = "";
  EXPECT(SST_INVALID_ARGUMENT, sst_lease_new(client, TEXT("door"), &options, &lease, &error));
  options.holder = NULL;
  options.resume = 1;
  EXPECT(SST_INVALID_ARGUMENT, sst_lease_new(client, TEXT("door"), &options, &lease, &error));
  CHECK(lease == NULL);
}

// The special values of times and numbers, each of which means the same everywhere.
static void specials(sst_client *client) {
  // What `deadline - now` is when that was a moment ago.
  const uint64_t past = (uint64_t)-2;
  sst_error *error = NULL;
  sst_client *other = NULL;
  sst_entry *entry = NULL;
  sst_observer *observer = NULL;
  sst_observation *observation = NULL;
  sst_guard *guard = NULL, *second = NULL;
  sst_queue *queue = NULL;
  sst_get_options get;
  sst_set_options set;
  sst_lease_options lease;
  sst_lock_options lock;
  sst_settings settings_;
  size_t ran = 1;
  memset(&get, 0, sizeof get);
  memset(&set, 0, sizeof set);
  memset(&lease, 0, sizeof lease);
  memset(&lock, 0, sizeof lock);
  memset(&settings_, 0, sizeof settings_);
  get.size = sizeof get, set.size = sizeof set, lease.size = sizeof lease, lock.size = sizeof lock;
  settings_.size = sizeof settings_;

  get.timeout_ms = past;
  EXPECT(SST_INVALID_ARGUMENT, sst_get(client, TEXT("specials"), &get, &entry, &error));
  set.expires_in_ms = past;
  EXPECT(SST_INVALID_ARGUMENT, sst_set(client, TEXT("specials"), TEXT("1"), &set, NULL, NULL, &error));
  settings_.connect_limit_ms = past;
  EXPECT(SST_INVALID_ARGUMENT, sst_connect(server_url(), &settings_, &other, &error));
  EXPECT(SST_OK, sst_observe(client, TEXT("specials"), NULL, &observer, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_observer_next(observer, past, &observation, &error));
  EXPECT(SST_TIMED_OUT, sst_observer_next(observer, 0, &observation, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_client_drain(client, past, &error));

  // Without an end: a request, a key, a connection, a lease's renewal.
  get.timeout_ms = SST_FOREVER;
  EXPECT(SST_OK, sst_get(client, TEXT("specials"), &get, &entry, &error));
  CHECK(entry == NULL);
  set.expires_in_ms = SST_FOREVER;
  EXPECT(SST_OK, sst_set(client, TEXT("specials"), TEXT("1"), &set, NULL, NULL, &error));
  settings_.connect_limit_ms = SST_FOREVER;
  settings_.reconnect_limit_ms = SST_FOREVER;
  settings_.session_expiry_ms = SST_FOREVER;
  settings_.keep_alive_ms = SST_FOREVER;
  settings_.request_timeout_ms = SST_FOREVER;
  EXPECT(SST_OK, sst_connect(server_url(), &settings_, &other, &error));
  EXPECT(SST_OK, sst_get(other, TEXT("specials"), NULL, &entry, &error));
  CHECK(entry != NULL);
  sst_entry_free(entry);
  lease.renewal_ms = SST_FOREVER;
  lock.lease = &lease;
  lock.wait_ms = SST_FOREVER;
  EXPECT(SST_OK, sst_lock(client, TEXT("specials/door"), &lock, &guard, &error));

  // One attempt does not wait.
  lock.once = 1;
  EXPECT(SST_INVALID_ARGUMENT, sst_lock(other, TEXT("specials/door"), &lock, &second, &error));
  lock.wait_ms = 0;
  EXPECT(SST_LOCK_HELD, sst_lock(other, TEXT("specials/door"), &lock, &second, &error));

#ifdef _WIN32
  EXPECT(SST_INTERNAL, sst_queue_new(&queue, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_queue_run(queue, 1, &ran, &error));
#else
  EXPECT(SST_OK, sst_queue_new(&queue, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_queue_run(queue, 0, &ran, &error));
  CHECK(ran == 0);
  EXPECT(SST_OK, sst_queue_run(queue, SST_ALL, &ran, &error));
#endif
  sst_queue_free(queue);
  sst_guard_free(guard);
  sst_observer_free(observer);
  end_client(other);
}

void suite_arguments(void) {
  sst_client *client = new_client();
  urls();
  settings();
  sizes(client);
  bytes(client);
  nulls(client);
  leases(client);
  specials(client);
  end_client(client);
}
