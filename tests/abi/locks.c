/* Leases, locks, guards and elections. */
#include "check.h"
#include "server.h"

typedef struct {
    latch *happened;
    sst_status status;
    sst_guard *guard;
    char text[64];
    bool is_nobody;
} told;

static void lost(void *context, sst_status status, const sst_error *error) {
    told *told = context;
    CHECK(status == SST_OK && error == NULL);
    latch_open(told->happened);
}

static void on_guard(void *context, sst_status status, const sst_error *error, sst_guard *guard) {
    told *told = context;
    CHECK(status == SST_OK && error == NULL && guard != NULL);
    told->guard = guard;
    latch_open(told->happened);
}

static void guards(sst_client *client) {
    sst_error *error = NULL;
    sst_guard *guard = NULL;
    sst_hlc *token = NULL, *renewed = NULL;
    sst_release release = SST_RELEASE_FAILED;
    sst_set_result set = SST_SET_FAILED;
    sst_del_result deleted = SST_DEL_FAILED;
    told told = {.happened = latch_new()};
    OK(sst_lock(client, TEXT("lock"), NULL, &guard, &error), error);
    CHECK(sst_guard_is_valid(guard));
    OK(sst_guard_check(guard, &error), error);
    FAILS(sst_guard_lost(guard, 0, &error), error, SST_TIMED_OUT);
    OK(sst_guard_lost_async(guard, (sst_on_done){&told, lost, NULL}, NULL, &error), error);
    OK(sst_guard_token(guard, &token, &error), error);
    OK(sst_guard_renew(guard, &renewed, &error), error);
    CHECK(sst_hlc_wall_ms(token) > 0 && renewed != NULL);
    OK(sst_guard_set(guard, TEXT("key"), TEXT("value"), NULL, &set, NULL, &error), error);
    CHECK(set == SST_SET_APPLIED);
    FAILS(sst_set(client, TEXT("key"), TEXT("other"), NULL, NULL, NULL, &error), error, SST_FENCING_TOKEN_REQUIRED);
    OK(sst_guard_vdel(guard, TEXT("key"), TEXT("other"), NULL, &deleted, &error), error);
    CHECK(deleted == SST_DEL_MISMATCH);
    OK(sst_guard_del(guard, TEXT("key"), NULL, &deleted, &error), error);
    CHECK(deleted == SST_DEL_DELETED);
    OK(sst_guard_release(guard, &release, &error), error);
    CHECK(release == SST_RELEASED && !sst_guard_is_valid(guard));
    latch_wait(told.happened);
    OK(sst_guard_lost(guard, 0, &error), error);
    FAILS(sst_guard_set(guard, TEXT("key"), TEXT("value"), NULL, &set, NULL, &error), error, SST_LOCK_LOST);
    FAILS(sst_guard_check(guard, &error), error, SST_LOCK_LOST);
    OK(sst_guard_release(guard, &release, &error), error);
    CHECK(release == SST_NOT_HELD);
    sst_hlc_free(token);
    sst_hlc_free(renewed);
    sst_guard_free(guard);
    latch_free(told.happened);
}

static void locks(sst_client *client, sst_client *other) {
    sst_error *error = NULL;
    sst_guard *guard = NULL, *second = NULL;
    sst_lease_options lease = {.size = sizeof lease, .duration_ms = 5000, .holder = "pump", .holder_len = 4};
    sst_lock_options options = {.size = sizeof options, .lease = &lease, .wait_ms = UINT64_MAX};
    told told = {.happened = latch_new()};
    OK(sst_lock(client, TEXT("lock"), &options, &guard, &error), error);
    CHECK(is_text(sst_guard_holder(guard), "pump"));
    lease.holder_len = 3;
    FAILS(sst_lock(other, TEXT("lock"), &options, &second, &error), error, SST_LOCK_HELD);
    CHECK(second == NULL);
    OK(sst_lock_async(other, TEXT("lock"), NULL, (sst_on_guard){&told, on_guard, NULL}, NULL, &error), error);
    sst_guard_free(guard);
    latch_wait(told.happened);
    CHECK(sst_guard_is_valid(told.guard));
    sst_guard_free(told.guard);
    lease.duration_ms = 1;
    FAILS(sst_lock(client, TEXT("lock"), &options, &guard, &error), error, SST_INVALID_ARGUMENT);
    latch_free(told.happened);
}

static void on_holding(void *context, sst_status status, const sst_error *error, const sst_holding *holding) {
    told *told = context;
    sst_slice holder = sst_holding_holder(holding);
    (void)error;
    told->status = status;
    told->is_nobody = holding == NULL;
    if (holder.len < sizeof told->text) memcpy(told->text, holder.data != NULL ? holder.data : "", holder.len);
    latch_open(told->happened);
}

static void subscription_dropped(void *context) {
    told *told = context;
    latch_open(told->happened);
}

static void leases(sst_client *client, sst_client *other) {
    sst_error *error = NULL;
    sst_lease *lease = NULL, *others = NULL;
    sst_guard *guard = NULL, *second = NULL;
    sst_holding *holding = NULL;
    sst_lease_options options = {.size = sizeof options, .holder = "pump", .holder_len = 4};
    sst_subscription *subscription = NULL;
    sst_release release = SST_RELEASE_FAILED;
    told told = {.happened = latch_new()};
    OK(sst_lease_new(client, TEXT("lease"), &options, &lease, &error), error);
    OK(sst_lease_new(other, TEXT("lease"), NULL, &others, &error), error);
    OK(sst_lease_observe(others, (sst_on_holding){&told, on_holding, subscription_dropped}, &subscription, &error), error);
    latch_wait(told.happened);
    CHECK(told.status == SST_OK && told.is_nobody);
    OK(sst_lease_acquire(lease, &guard, &holding, &error), error);
    CHECK(guard != NULL && holding == NULL);
    latch_wait(told.happened);
    CHECK(told.status == SST_OK && strcmp(told.text, "pump") == 0);
    OK(sst_lease_acquire(others, &second, &holding, &error), error);
    CHECK(second == NULL && is_text(sst_holding_holder(holding), "pump"));
    sst_holding_free(holding);
    OK(sst_lease_holder(others, &holding, &error), error);
    CHECK(is_text(sst_holding_holder(holding), "pump"));
    sst_holding_free(holding);
    OK(sst_guard_leave(guard, &error), error);
    sst_guard_free(guard);
    OK(sst_lease_release(lease, &release, &error), error);
    CHECK(release == SST_RELEASED);
    FAILS(sst_lease_release(others, &release, &error), error, SST_INVALID_ARGUMENT);
    latch_wait(told.happened);
    CHECK(told.status == SST_OK && told.is_nobody);
    OK(sst_subscription_cancel(subscription, &error), error);
    sst_subscription_free(subscription);
    latch_wait(told.happened);
    latch_free(told.happened);
    sst_lease_free(lease);
    sst_lease_free(others);
    OK(sst_set(client, TEXT("data"), "{\n}", 3, NULL, NULL, NULL, &error), error);
    OK(sst_lease_new(client, TEXT("data"), NULL, &lease, &error), error);
    FAILS(sst_lease_acquire(lease, &guard, NULL, &error), error, SST_NOT_A_LOCK);
    sst_lease_free(lease);
}

static void elections(sst_client *client, sst_client *other) {
    sst_error *error = NULL;
    sst_election *election = NULL, *seen = NULL;
    sst_leader *leader = NULL;
    sst_guard *lead = NULL, *lock = NULL;
    sst_release release = SST_RELEASE_FAILED;
    OK(sst_election_new(client, TEXT("election"), NULL, &election, &error), error);
    OK(sst_election_new(other, TEXT("election"), NULL, &seen, &error), error);
    OK(sst_election_leader(seen, &leader, &error), error);
    CHECK(leader == NULL);
    OK(sst_election_campaign(election, TEXT("first"), &lead, &error), error);
    OK(sst_election_leader(seen, &leader, &error), error);
    CHECK(sst_leader_has_value(leader) && is_text(sst_leader_value(leader), "first"));
    CHECK(sst_leader_holder(leader).len == sst_guard_holder(lead).len);
    sst_leader_free(leader);
    OK(sst_guard_proclaim(lead, TEXT("second"), NULL, NULL, &error), error);
    OK(sst_election_leader(seen, &leader, &error), error);
    CHECK(is_text(sst_leader_value(leader), "second"));
    sst_leader_free(leader);
    OK(sst_guard_release(lead, &release, &error), error);
    CHECK(release == SST_RELEASED);
    sst_guard_free(lead);
    OK(sst_lock(client, TEXT("plain"), NULL, &lock, &error), error);
    FAILS(sst_guard_proclaim(lock, TEXT("x"), NULL, NULL, &error), error, SST_INVALID_ARGUMENT);
    sst_guard_free(lock);
    sst_election_free(election);
    sst_election_free(seen);
}

int main(void) {
    server *server = server_start();
    sst_client *client = server_connect(server), *other = server_connect(server);
    guards(client);
    locks(client, other);
    leases(client, other);
    elections(client, other);
    disconnect(client);
    disconnect(other);
    server_stop(server);
    return 0;
}
