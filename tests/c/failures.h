// Every function of the header that can fail, called so that it does: one table for all suites.
#ifndef FAILURES_H
#define FAILURES_H

#include "harness.h"

// What no function gives: results are found to be changed by it.
#define JUNK(type) ((type *)(uintptr_t)1)

// One handle of each type, and what else the functions of the table are called with.
typedef struct handle_set {
  sst_client *client;
  sst_queue *queue;
  sst_operation *operation;
  sst_subscription *subscription;
  sst_scan *scan;
  sst_scan_entries *entry_scan;
  sst_observer *observer;
  sst_observation *observation;
  sst_mirror *mirror;
  sst_lease *lease;
  sst_holding *holding;
  // Of a lease, and of the election.
  sst_guard *guard;
  sst_guard *lead;
  sst_election *election;
  sst_leader *leader;
  sst_hlc *hlc;
  sst_entry *entry;
  sst_entries *entries;
  // Of one SET, and of one DEL.
  sst_results *sets, *dels;
  sst_transaction *transaction;
  sst_transaction_outcome *outcome;
  sst_keys *keys;
  sst_bytes *bytes;
  sst_error *error;
  // Keys, values, names and patterns.
  const void *data;
  size_t len;
  // A struct of options of any type.
  const void *options;
  // Those of locks and elections, if the others are NULL.
  const sst_lock_options *lock_options;
} handle_set;

// Which part of its arguments a function has.
enum { HAS_HANDLE = 1, HAS_BYTES = 2, HAS_OPTIONS = 4, HAS_CLIENT = 8 };

// What is to be expected of a function, beyond that it fails whenever one of its arguments is bad.
typedef struct failing {
  const char *name;
  // Calls it. If it fails, it ends the process unless every place of a result is NULL, or says that nothing is there, and unless
  // every callback that was handed over was dropped, once. The status is that of the call or, if it gave SST_OK, of its callback.
  sst_status (*call)(const handle_set *handle_set, sst_error **error);
  int has;
  // After its client was closed, after a bug of the library was met, and when no answer comes; SST_OK if it does not fail then.
  sst_status closed, broken, unanswered;
} failing;

extern const failing failings[];
extern const size_t failings_len;

// One of each, all of them good, made with this client.
handle_set make_handle_set(sst_client *client);
// Frees all, but for the client.
void free_handle_set(handle_set *handle_set);
// Calls every function that has any of these parts of arguments, and expects this status of all.
void expect_all(const handle_set *handle_set, int having, sst_status expected);
// Calls every function that gives a value instead of a status: it gives what means that there is nothing.
void expect_nothing(const handle_set *handle_set);

#endif
