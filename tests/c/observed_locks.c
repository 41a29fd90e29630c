// Leases and elections that are observed with callbacks.
#include "harness.h"

#include <string.h>

static void on_holding(void *context, sst_status status, const sst_error *error, const sst_holding *holding) {
  char text[64] = "nobody";
  sst_slice holder = sst_holding_holder(holding);
  (void)error;
  if (holding != NULL) copy_text(holder, text);
  latch_call((latch *)context, status, NULL, text);
}

static void on_leader(void *context, sst_status status, const sst_error *error, const sst_leader *leader) {
  char text[64] = "nobody";
  sst_slice value = sst_leader_value(leader);
  (void)error;
  if (sst_leader_has_value(leader)) copy_text(value, text);
  latch_call((latch *)context, status, NULL, text);
}

// What an observe with callbacks tells: `begun` of the subscription, `received` of what is observed.
typedef struct watch {
  latch begun;
  latch received;
} watch;

static void on_subscription(void *context, sst_status status, const sst_error *error, sst_subscription *subscription) {
  watch *of = (watch *)context;
  CHECK((error == NULL) == (status == SST_OK) && (subscription != NULL) == (status == SST_OK));
  CHECK(latch_calls(&of->received) == 0);
  latch_call(&of->begun, status, subscription, "");
}

static void drop_begun(void *context) { latch_drop(&((watch *)context)->begun); }

static void watch_init(watch *of) {
  latch_init(&of->begun);
  latch_init(&of->received);
}

static void watch_destroy(watch *of) {
  latch_destroy(&of->begun);
  latch_destroy(&of->received);
}

// The subscription is told before what is observed.
static void observed_with_callbacks(sst_client *client, sst_client *other) {
  sst_error *error = NULL;
  sst_lease *lease = NULL;
  sst_election *election = NULL;
  sst_guard *guard = NULL;
  watch leases_, elections_;
  const sst_on_holding holding = {&leases_.received, on_holding, latch_drop};
  const sst_on_leader leader = {&elections_.received, on_leader, latch_drop};
  const sst_on_subscription of_lease = {&leases_, on_subscription, drop_begun};
  const sst_on_subscription of_election = {&elections_, on_subscription, drop_begun};
  watch_init(&leases_);
  watch_init(&elections_);
  EXPECT(SST_OK, sst_lease_new(client, TEXT("observed/watched"), NULL, &lease, &error));
  EXPECT(SST_OK, sst_lease_observe_async(lease, holding, of_lease, NULL, &error));
  sst_lease_free(lease);
  EXPECT(SST_OK, sst_election_new(client, TEXT("observed/watched"), NULL, &election, &error));
  EXPECT(SST_OK, sst_election_observe_async(election, leader, of_election, NULL, &error));
  latch_wait_drops(&leases_.begun, 1);
  latch_wait_drops(&elections_.begun, 1);
  CHECK(leases_.begun.calls == 1 && elections_.begun.calls == 1);
  latch_wait_calls(&leases_.received, 1);
  latch_wait_calls(&elections_.received, 1);
  CHECK(latch_has_text(&leases_.received, "nobody") && latch_has_text(&elections_.received, "nobody"));
  sst_election_free(election);
  EXPECT(SST_OK, sst_election_new(other, TEXT("observed/watched"), NULL, &election, &error));
  EXPECT(SST_OK, sst_election_campaign(election, TEXT("ann"), &guard, &error));
  latch_wait_calls(&leases_.received, 2);
  latch_wait_calls(&elections_.received, 2);
  EXPECT(SST_OK, sst_subscription_cancel((sst_subscription *)leases_.begun.handle, &error));
  EXPECT(SST_OK, sst_subscription_cancel((sst_subscription *)elections_.begun.handle, &error));
  latch_wait_drops(&leases_.received, 1);
  latch_wait_drops(&elections_.received, 1);
  CHECK(leases_.received.failures == 0 && elections_.received.failures == 0);
  sst_subscription_free((sst_subscription *)leases_.begun.handle);
  sst_subscription_free((sst_subscription *)elections_.begun.handle);
  sst_guard_free(guard);
  sst_election_free(election);
  watch_destroy(&leases_);
  watch_destroy(&elections_);
}

// Observes a lease and an election that nobody observes yet, while the server says nothing: both end with `received`, which is brought
// about.
static void observe_in_vain(sst_client *client, const char *name, sst_status received) {
  sst_error *error = NULL;
  sst_lease *lease = NULL;
  sst_election *election = NULL;
  sst_operation *operations[2] = {NULL, NULL};
  watch watches[2];
  const sst_on_holding holding = {&watches[0].received, on_holding, latch_drop};
  const sst_on_leader leader = {&watches[1].received, on_leader, latch_drop};
  const sst_on_subscription of_lease = {&watches[0], on_subscription, drop_begun};
  const sst_on_subscription of_election = {&watches[1], on_subscription, drop_begun};
  int i;
  watch_init(&watches[0]);
  watch_init(&watches[1]);
  EXPECT(SST_OK, sst_lease_new(client, name, strlen(name), NULL, &lease, &error));
  EXPECT(SST_OK, sst_election_new(client, name, strlen(name), NULL, &election, &error));
  EXPECT(SST_OK, sst_lease_observe_async(lease, holding, of_lease, &operations[0], &error));
  EXPECT(SST_OK, sst_election_observe_async(election, leader, of_election, &operations[1], &error));
  for (i = 0; i < 2; ++i) {
    if (received == SST_CANCELLED) EXPECT(SST_OK, sst_operation_cancel(operations[i], &error));
    if (received == SST_CLOSED) EXPECT(SST_OK, sst_client_close(client, &error));
    latch_wait_drops(&watches[i].begun, 1);
    latch_wait_drops(&watches[i].received, 1);
    CHECK(watches[i].begun.calls == 1 && watches[i].begun.status == received && watches[i].received.calls == 0);
    CHECK(sst_operation_has_ended(operations[i]));
    sst_operation_free(operations[i]);
    watch_destroy(&watches[i]);
  }
  sst_lease_free(lease);
  sst_election_free(election);
}

static void observed_in_vain(void) {
  sst_error *error = NULL;
  sst_client *impatient = NULL, *client;
  sst_operation *operation = NULL;
  sst_lease *lease = NULL;
  sst_election *election = NULL;
  watch refused, unheard;
  const sst_on_holding no_holding = {&refused.received, on_holding, latch_drop};
  const sst_on_leader no_leader = {&refused.received, on_leader, latch_drop};
  const sst_on_subscription no_subscription = {&refused, on_subscription, drop_begun};
  const sst_on_holding holding = {&unheard.received, on_holding, latch_drop};
  const sst_on_leader leader = {&unheard.received, on_leader, latch_drop};
  const sst_on_subscription nobody = {&unheard, NULL, drop_begun};
  sst_settings settings;
  memset(&settings, 0, sizeof settings);
  settings.size = sizeof settings;
  settings.request_timeout_ms = 500;
  EXPECT(SST_OK, sst_connect(server_url(), &settings, &impatient, &error));
  client = new_client();
  server_stop();
  observe_in_vain(impatient, "observed/slow", SST_TIMED_OUT);
  observe_in_vain(impatient, "observed/closed", SST_CLOSED);
  observe_in_vain(client, "observed/dropped", SST_CANCELLED);
  server_continue();
  sst_client_free(impatient);
  EXPECT(SST_OK, sst_lease_new(client, TEXT("observed/vain"), NULL, &lease, &error));
  EXPECT(SST_OK, sst_election_new(client, TEXT("observed/vain"), NULL, &election, &error));

  // A subscription that nobody takes goes on until the client is closed.
  watch_init(&unheard);
  EXPECT(SST_OK, sst_lease_observe_async(lease, holding, nobody, NULL, &error));
  EXPECT(SST_OK, sst_election_observe_async(election, leader, nobody, NULL, &error));
  latch_wait_calls(&unheard.received, 2);
  CHECK(latch_has_text(&unheard.received, "nobody"));
  EXPECT(SST_OK, sst_client_close(client, &error));
  latch_wait_drops(&unheard.received, 2);
  CHECK(unheard.begun.drops == 2 && unheard.received.calls == 4 && unheard.received.status == SST_CLOSED);
  watch_destroy(&unheard);

  // Neither is called if the call itself fails.
  watch_init(&refused);
  EXPECT(SST_CLOSED, sst_lease_observe_async(lease, no_holding, no_subscription, &operation, &error));
  EXPECT(SST_CLOSED, sst_election_observe_async(election, no_leader, no_subscription, &operation, &error));
  sst_lease_free(lease);
  sst_election_free(election);
  EXPECT(SST_INVALID_HANDLE, sst_lease_observe_async(lease, no_holding, no_subscription, &operation, &error));
  EXPECT(SST_INVALID_HANDLE, sst_election_observe_async(election, no_leader, no_subscription, &operation, &error));
  CHECK(operation == NULL && refused.received.calls == 0 && refused.begun.calls == 0);
  CHECK(refused.received.drops == 4 && refused.begun.drops == 4);
  watch_destroy(&refused);
  sst_client_free(client);
}

void suite_observed_locks(void) {
  sst_client *client = new_client(), *other = new_client();
  observed_with_callbacks(client, other);
  observed_in_vain();
  end_client(client);
  end_client(other);
}
