// Transactions, and a store that has none.
#include <stdio.h>

#include "foreign.h"
#include "versions.h"

static sst_transaction *transaction(void) {
  sst_error *error = NULL;
  sst_transaction *made = NULL;
  EXPECT(SST_OK, sst_transaction_new(&made, &error));
  CHECK(made != NULL && sst_transaction_len(made) == 0);
  return made;
}

static void add_set(sst_transaction *to, const char *key, const char *value, const sst_set_options *options) {
  sst_error *error = NULL;
  const size_t len = sst_transaction_len(to);
  EXPECT(SST_OK, sst_transaction_set(to, key, strlen(key), value, strlen(value), options, &error));
  CHECK(sst_transaction_len(to) == len + 1);
}

static void add_del(sst_transaction *to, const char *key, const sst_del_options *options) {
  sst_error *error = NULL;
  EXPECT(SST_OK, sst_transaction_del(to, key, strlen(key), options, &error));
}

// How a transaction fails, and the operation for which. Frees it.
static int64_t refused(sst_client *client, sst_transaction *given, sst_status expected) {
  sst_transaction_outcome *outcome = (sst_transaction_outcome *)(uintptr_t)1;
  sst_error *error = NULL;
  const sst_status status = sst_transact(client, given, NULL, &outcome, &error);
  const int64_t operation = sst_error_operation(error);
  if (status != expected) fprintf(stderr, "%s\n", sst_error_message(error));
  CHECK(status == expected && outcome == NULL && sst_error_outcome(error) == SST_NOT_DONE);
  sst_error_free(error);
  sst_transaction_free(given);
  return operation;
}

static void applied(sst_client *client) {
  sst_error *error = NULL;
  sst_transaction *given = transaction();
  sst_transaction_outcome *outcome = NULL;
  sst_hlc *old = set(client, "ext/a", "1"), *version = NULL;
  sst_entry *entry = NULL;
  sst_set_options unchanged = set_options(), new_ = set_options();
  sst_transact_options options;
  const sst_get_options ask = remaining();
  unchanged.if_version = old;
  new_.condition = SST_IF_ABSENT;
  new_.expires_in_ms = 60000;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.timeout_ms = 20000;
  options.persist = 1;
  options.retry = SST_RETRY_NEVER;
  add_set(given, "ext/a", "2", &unchanged);
  // Any bytes are a key and a value.
  EXPECT(SST_OK, sst_transaction_set(given, "\0\xff", 2, "\0\x80", 2, &new_, &error));
  add_del(given, "ext/none", NULL);
  add_set(given, "ext/b", "3", NULL);
  add_del(given, "ext/b", NULL);
  // What is borrowed for the call may be gone.
  sst_hlc_free(old);
  EXPECT(SST_OK, sst_transact(client, given, &options, &outcome, &error));
  CHECK(sst_transaction_outcome_is_applied(outcome) && sst_transaction_outcome_len(outcome) == 5);
  CHECK(sst_transaction_outcome_operation(outcome) == -1);
  EXPECT(SST_OK, sst_transaction_outcome_version(outcome, &version, &error));
  CHECK(version == NULL);
  EXPECT(SST_OK, sst_transaction_outcome_version_at(outcome, 2, &version, &error));
  CHECK(version == NULL);
  EXPECT(SST_INVALID_ARGUMENT, sst_transaction_outcome_version_at(outcome, 5, &version, &error));
  EXPECT(SST_OK, sst_transaction_outcome_version_at(outcome, 1, &version, &error));
  EXPECT(SST_OK, sst_get(client, "\0\xff", 2, &ask, &entry, &error));
  CHECK(sst_entry_value(entry).len == 2 && sst_entry_expires_in_ms(entry) <= 60000);
  EXPECT(SST_OK, sst_entry_version(entry, &old, &error));
  CHECK(is_same(version, old));
  sst_hlc_free(old);
  sst_entry_free(entry);
  CHECK(has(client, "ext/a", "2") && has(client, "ext/b", NULL));

  // It can be sent again, when its conditions are those of another time.
  sst_transaction_outcome_free(outcome);
  EXPECT(SST_OK, sst_transact(client, given, NULL, &outcome, &error));
  CHECK(!sst_transaction_outcome_is_applied(outcome) && sst_transaction_outcome_operation(outcome) == 0);
  sst_transaction_outcome_free(outcome);
  sst_transaction_free(given);

  // And it can be continued.
  given = transaction();
  add_set(given, "ext/c", "1", NULL);
  EXPECT(SST_OK, sst_transact(client, given, NULL, &outcome, &error));
  sst_transaction_outcome_free(outcome);
  add_set(given, "ext/d", "2", NULL);
  EXPECT(SST_OK, sst_transact(client, given, NULL, &outcome, &error));
  CHECK(sst_transaction_outcome_len(outcome) == 2 && has(client, "ext/d", "2"));
  sst_transaction_outcome_free(outcome);
  sst_transaction_free(given);
}

static void not_applied(sst_client *client) {
  sst_error *error = NULL;
  sst_transaction *given = transaction();
  sst_transaction_outcome *outcome = NULL;
  sst_hlc *old = set(client, "ext/na", "1"), *version = NULL;
  sst_set_options new_ = set_options();
  sst_del_options changed = del_options();
  new_.condition = SST_IF_ABSENT;
  changed.if_version = old;
  add_set(given, "ext/nb", "2", NULL);
  add_set(given, "ext/na", "2", &new_);
  EXPECT(SST_OK, sst_transact(client, given, NULL, &outcome, &error));
  CHECK(!sst_transaction_outcome_is_applied(outcome) && sst_transaction_outcome_len(outcome) == 0);
  CHECK(sst_transaction_outcome_operation(outcome) == 1);
  EXPECT(SST_OK, sst_transaction_outcome_version(outcome, &version, &error));
  CHECK(is_same(version, old));
  EXPECT(SST_INVALID_ARGUMENT, sst_transaction_outcome_version_at(outcome, 0, &version, &error));
  sst_transaction_outcome_free(outcome);
  sst_transaction_free(given);

  given = transaction();
  add_set(given, "ext/nb", "2", NULL);
  add_del(given, "ext/none", &changed);
  EXPECT(SST_OK, sst_transact(client, given, NULL, &outcome, &error));
  CHECK(sst_transaction_outcome_operation(outcome) == 1);
  EXPECT(SST_OK, sst_transaction_outcome_version(outcome, &version, &error));
  CHECK(version == NULL && has(client, "ext/nb", NULL) && has(client, "ext/na", "1"));
  sst_transaction_outcome_free(outcome);
  sst_transaction_free(given);
  sst_hlc_free(old);
}

static void refusals(sst_client *client) {
  sst_error *error = NULL;
  sst_hlc *token = set(client, "ext/token", "x");
  sst_set_options fenced = set_options();
  sst_transaction *given;
  int i;
  fenced.fencing_token = token;
  EXPECT(SST_OK, sst_set(client, TEXT("ext/fenced"), TEXT("x"), &fenced, NULL, NULL, &error));
  given = transaction();
  add_set(given, "ext/other", "x", NULL);
  add_del(given, "ext/fenced", NULL);
  CHECK(refused(client, given, SST_FENCING_TOKEN_REQUIRED) == 1 && has(client, "ext/other", NULL));
  sst_hlc_free(token);

  given = transaction();
  add_set(given, "ext/other", "x", NULL);
  add_set(given, "", "x", NULL);
  CHECK(refused(client, given, SST_INVALID_ARGUMENT) == 1);
  CHECK(refused(client, transaction(), SST_INVALID_ARGUMENT) == -1);

  given = transaction();
  for (i = 0; i < MOST + 1; ++i) add_set(given, "ext/other", "x", NULL);
  CHECK(refused(client, given, SST_INVALID_ARGUMENT) == -1 && has(client, "ext/other", NULL));
  // Other errors are about no operation.
  CHECK(sst_get(client, NULL, 0, NULL, NULL, &error) == SST_INVALID_ARGUMENT && sst_error_operation(error) == -1);
  sst_error_free(error);
}

// What cannot be an operation is refused, and not added.
static void arguments(sst_client *client) {
  sst_error *error = NULL;
  sst_transaction *given = transaction();
  sst_transaction_outcome *outcome = NULL;
  sst_hlc *version = parse("7:1:StateStore");
  sst_set_options set_ = set_options();
  sst_del_options del = del_options();
  EXPECT(SST_INVALID_ARGUMENT, sst_transaction_new(NULL, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_transaction_set(given, NULL, 4, TEXT("x"), NULL, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_transaction_set(given, TEXT("k"), NULL, 4, NULL, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_transaction_del(given, "k", SIZE_MAX, NULL, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_transaction_set(given, TEXT("k"), TEXT("x"), (set_.persist = 1, &set_), &error));
  set_ = set_options();
  EXPECT(SST_INVALID_ARGUMENT, sst_transaction_set(given, TEXT("k"), TEXT("x"), (set_.coalesce = 1, &set_), &error));
  set_ = set_options();
  EXPECT(SST_INVALID_ARGUMENT, sst_transaction_set(given, TEXT("k"), TEXT("x"), (set_.timeout_ms = 1, &set_), &error));
  set_ = set_options();
  EXPECT(SST_INVALID_ARGUMENT,
         sst_transaction_set(given, TEXT("k"), TEXT("x"), (set_.retry = SST_RETRY_ALWAYS, &set_), &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_transaction_del(given, TEXT("k"), (del.timeout_ms = 1, &del), &error));
  del = del_options();
  EXPECT(SST_INVALID_ARGUMENT, sst_transaction_del(given, TEXT("k"), (del.retry = SST_RETRY_NEVER, &del), &error));
  EXPECT(SST_INVALID_HANDLE, sst_transaction_set((sst_transaction *)(void *)version, TEXT("k"), TEXT("x"), NULL, &error));
  EXPECT(SST_INVALID_HANDLE, sst_transaction_del((sst_transaction *)(void *)client, TEXT("k"), NULL, &error));
  CHECK(sst_transaction_len(given) == 0);
  add_set(given, "ext/k", "x", NULL);
  EXPECT(SST_INVALID_HANDLE, sst_transact(client, (sst_transaction *)(void *)client, NULL, &outcome, &error));
  EXPECT(SST_INVALID_HANDLE, sst_transact((sst_client *)(void *)given, given, NULL, &outcome, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_transact(client, NULL, NULL, &outcome, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_transact(client, given, NULL, NULL, &error));
  CHECK(has(client, "ext/k", NULL));
  sst_transaction_free(given);
  EXPECT(SST_INVALID_HANDLE, sst_transact(client, given, NULL, &outcome, &error));
  sst_hlc_free(version);
}

static void on_outcome(void *context, sst_status status, const sst_error *error, const sst_transaction_outcome *outcome) {
  CHECK((error == NULL) == (status == SST_OK) && (outcome != NULL) == (status == SST_OK));
  latch_call((latch *)context, status, NULL, sst_transaction_outcome_is_applied(outcome) ? "applied" : "not applied");
}

static void in_the_background(void) {
  sst_error *error = NULL;
  sst_client *client = new_client();
  sst_operation *operation = NULL;
  sst_transaction *given = transaction();
  sst_set_options new_ = set_options();
  latch done;
  const sst_on_transaction_outcome transacted = {&done, on_outcome, latch_drop};
  latch_init(&done);
  // It is the operation's own from the beginning: what is added, and that it is freed, does not matter.
  new_.condition = SST_IF_ABSENT;
  add_set(given, "ext/async", "x", &new_);
  EXPECT(SST_OK, sst_transact_async(client, given, NULL, transacted, NULL, &error));
  add_set(given, "", "x", NULL);
  sst_transaction_free(given);
  latch_wait_drops(&done, 1);
  CHECK(done.status == SST_OK && strcmp(done.text, "applied") == 0 && has(client, "ext/async", "x"));
  given = transaction();
  add_set(given, "ext/async", "y", &new_);
  EXPECT(SST_OK, sst_transact_async(client, given, NULL, transacted, NULL, &error));
  latch_wait_drops(&done, 2);
  CHECK(done.status == SST_OK && strcmp(done.text, "not applied") == 0 && has(client, "ext/async", "x"));

  server_stop();
  EXPECT(SST_OK, sst_transact_async(client, given, NULL, transacted, &operation, &error));
  EXPECT(SST_OK, sst_operation_cancel(operation, &error));
  latch_wait_drops(&done, 3);
  CHECK(done.calls == 3 && done.status == SST_CANCELLED && sst_operation_has_ended(operation));
  sst_operation_free(operation);
  // Taken back: nothing is called.
  EXPECT(SST_OK, sst_transact_async(client, given, NULL, transacted, &operation, &error));
  EXPECT(SST_OK, sst_operation_close(operation, &error));
  sst_operation_free(operation);
  CHECK(done.calls == 3 && done.drops == 4);
  server_continue();
  EXPECT(SST_OK, sst_client_close(client, &error));
  EXPECT(SST_CLOSED, sst_transact_async(client, given, NULL, transacted, &operation, &error));
  CHECK(operation == NULL && done.calls == 3 && done.drops == 5);
  sst_client_free(client);
  sst_transaction_free(given);
  latch_destroy(&done);
}

// A transaction belongs to no client, and to all threads.
typedef struct adding {
  pthread_t thread;
  sst_transaction *to;
} adding;

static void *add_some(void *argument) {
  adding *adding_ = (adding *)argument;
  int i;
  for (i = 0; i < 100; ++i) CHECK(sst_transaction_set(adding_->to, TEXT("ext/shared"), TEXT("x"), NULL, NULL) == SST_OK);
  return NULL;
}

static void shared(sst_client *client) {
  sst_error *error = NULL;
  sst_client *other = new_client();
  sst_transaction_outcome *outcome = NULL;
  adding all[4];
  sst_transaction *given = transaction();
  int i;
  for (i = 0; i < 4; ++i) {
    all[i].to = given;
    CHECK(pthread_create(&all[i].thread, NULL, add_some, &all[i]) == 0);
  }
  for (i = 0; i < 4; ++i) CHECK(pthread_join(all[i].thread, NULL) == 0);
  CHECK(sst_transaction_len(given) == 400);
  EXPECT(SST_OK, sst_transact(client, given, NULL, &outcome, &error));
  sst_transaction_outcome_free(outcome);
  EXPECT(SST_OK, sst_transact(other, given, NULL, &outcome, &error));
  CHECK(sst_transaction_outcome_len(outcome) == 400);
  sst_transaction_outcome_free(outcome);
  sst_transaction_free(given);
  end_client(other);
}

// A store that knows nothing of this is asked once, and then nothing more.
static void foreign(void) {
  const char *const command[] = {"python3", FOREIGN, PEER, "foreign", NULL};
  const program store = start_program(command);
  sst_error *error = NULL;
  sst_client *client = NULL;
  sst_settings settings;
  sst_entry *entry = NULL;
  sst_hlc *version = parse("7:1:StateStore");
  sst_get_options ask = remaining();
  sst_del_options del = del_options();
  sst_capabilities none;
  sst_observe_matching_options never;
  sst_observer *observer = NULL;
  sst_scan_entries *scan = NULL;
  sst_entries *entries = NULL;
  sst_transaction *given = transaction();
  memset(&settings, 0, sizeof settings);
  settings.size = sizeof settings;
  settings.client_id = "foreign";
  EXPECT(SST_OK, sst_connect(store.url, &settings, &client, &error));
  del.if_version = version;
  EXPECT(SST_UNSUPPORTED, sst_del(client, TEXT("key"), &del, NULL, NULL, &error));
  EXPECT(SST_UNSUPPORTED, sst_vdel(client, TEXT("key"), TEXT("x"), &del, NULL, NULL, &error));
  EXPECT(SST_UNSUPPORTED, sst_get(client, TEXT("key"), &ask, &entry, &error));
  add_set(given, "key", "x", NULL);
  CHECK(refused(client, given, SST_UNSUPPORTED) == -1);
  memset(&none, 0xff, sizeof none);
  none.size = sizeof none;
  EXPECT(SST_OK, sst_client_capabilities(client, &none, &error));
  CHECK(none.conditions == 0 && none.remaining_time == 0 && none.transactions == 0 && none.eventual == 0 && none.max_get_keys == 0);
  CHECK(none.scan_values == 0 && none.observe_matching == 0);
  memset(&never, 0, sizeof never);
  never.size = sizeof never;
  never.refresh_ms = SST_FOREVER;
  EXPECT(SST_UNSUPPORTED, sst_observe_matching(client, TEXT("*"), &never, &observer, &error));
  EXPECT(SST_OK, sst_scan_entries_new(client, TEXT("*"), NULL, &scan, &error));
  EXPECT(SST_UNSUPPORTED, sst_scan_entries_next_page(scan, &entries, &error));
  CHECK(observer == NULL && entries == NULL);
  sst_scan_entries_free(scan);
  end_client(client);
  sst_hlc_free(version);
  // It says on standard error what else it was asked.
  CHECK(end_program(&store) == 0);
}

void suite_transactions(void) {
  sst_client *client = new_client();
  applied(client);
  not_applied(client);
  refusals(client);
  arguments(client);
  shared(client);
  end_client(client);
  in_the_background();
  foreign();
}
