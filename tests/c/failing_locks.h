// A part of failing.c: guards, leases, locks and elections.
#ifndef FAILING_LOCKS_H
#define FAILING_LOCKS_H

CALL(sst_guard_token, sst_hlc *token = JUNK(sst_hlc), sst_guard_token(of->guard, &token, error), token == NULL,
     sst_hlc_free(token))
CALL(sst_guard_check, , sst_guard_check(of->guard, error), true, )
CALL(sst_guard_wait_lost, , sst_guard_wait_lost(of->guard, 1, error), true, )
BEGIN(sst_guard_wait_lost_async, sst_on_done, on_done, sst_guard_wait_lost_async(of->guard, callback, &operation, error))
CALL(sst_guard_renew, sst_hlc *version = JUNK(sst_hlc), sst_guard_renew(of->guard, &version, error), version == NULL,
     sst_hlc_free(version))
BEGIN(sst_guard_renew_async, sst_on_version, on_version, sst_guard_renew_async(of->guard, callback, &operation, error))
CALL(sst_guard_release, sst_release release = SST_RELEASED, sst_guard_release(of->guard, SST_FOREVER, &release, error),
     release == SST_RELEASE_FAILED, )
BEGIN(sst_guard_release_async, sst_on_release, on_release, sst_guard_release_async(of->guard, SST_FOREVER, callback, &operation, error))
CALL(sst_guard_leave, , sst_guard_leave(of->guard, error), true, )
BEGIN(sst_guard_leave_async, sst_on_done, on_done, sst_guard_leave_async(of->guard, callback, &operation, error))
CALL(sst_guard_set, SET_PLACES, sst_guard_set(of->guard, TEXT("key"), BYTES, OPTIONS(sst_set_options), &set, &version, error),
     NOT_SET, sst_hlc_free(version))
BEGIN(sst_guard_set_async, sst_on_set, on_set,
      sst_guard_set_async(of->guard, BYTES, TEXT("x"), OPTIONS(sst_set_options), callback, &operation, error))

static sst_status call_sst_guard_update(const handle_set *of, sst_error **error) {
  UPDATE_PLACES;
  latch asked;
  const sst_changer changer = {&asked, no_change, latch_drop};
  sst_status status;
  latch_init(&asked);
  status = sst_guard_update(of->guard, BYTES, OPTIONS(sst_update_options), changer, &update, &version, error);
  CHECK(asked.drops == 1);
  if (status != SST_OK) CHECK(NOT_UPDATED);
  sst_hlc_free(version);
  latch_destroy(&asked);
  return status;
}

static sst_status call_sst_guard_update_async(const handle_set *of, sst_error **error) {
  sst_operation *operation = JUNK(sst_operation);
  latch asked, received;
  const sst_changer changer = {&asked, no_change, latch_drop};
  const sst_on_update callback = {&received, on_update, latch_drop};
  sst_status status;
  latch_init(&asked);
  latch_init(&received);
  status = sst_guard_update_async(of->guard, BYTES, OPTIONS(sst_update_options), changer, callback, &operation, error);
  status = ended(&received, status, operation, error);
  CHECK(asked.drops == 1);
  latch_destroy(&asked);
  return status;
}

CALL(sst_guard_del, DEL_PLACES, sst_guard_del(of->guard, BYTES, OPTIONS(sst_del_options), &del, &version, error), NOT_DELETED,
     sst_hlc_free(version))
BEGIN(sst_guard_del_async, sst_on_del, on_del,
      sst_guard_del_async(of->guard, BYTES, OPTIONS(sst_del_options), callback, &operation, error))
CALL(sst_guard_vdel, DEL_PLACES, sst_guard_vdel(of->guard, TEXT("key"), BYTES, OPTIONS(sst_del_options), &del, &version, error),
     NOT_DELETED, sst_hlc_free(version))
BEGIN(sst_guard_vdel_async, sst_on_del, on_del,
      sst_guard_vdel_async(of->guard, BYTES, TEXT("x"), OPTIONS(sst_del_options), callback, &operation, error))
CALL(sst_guard_proclaim, SET_PLACES, sst_guard_proclaim(of->lead, BYTES, &set, &version, error), NOT_SET, sst_hlc_free(version))
BEGIN(sst_guard_proclaim_async, sst_on_set, on_set, sst_guard_proclaim_async(of->lead, BYTES, callback, &operation, error))

CALL(sst_lease_new, sst_lease *lease = JUNK(sst_lease),
     sst_lease_new(of->client, BYTES, OPTIONS(sst_lease_options), &lease, error), lease == NULL, sst_lease_free(lease))
#define ACQUIRE_PLACES                 \
  sst_guard *guard = JUNK(sst_guard);  \
  sst_holding *holding = JUNK(sst_holding)
CALL(sst_lease_acquire, ACQUIRE_PLACES, sst_lease_acquire(of->lease, &guard, &holding, error), guard == NULL && holding == NULL,
     sst_guard_free(guard);
     sst_holding_free(holding))
BEGIN(sst_lease_acquire_async, sst_on_acquired, on_acquired, sst_lease_acquire_async(of->lease, callback, &operation, error))
CALL(sst_lease_release, sst_release release = SST_RELEASED, sst_lease_release(of->lease, &release, error),
     release == SST_RELEASE_FAILED, )
BEGIN(sst_lease_release_async, sst_on_release, on_release, sst_lease_release_async(of->lease, callback, &operation, error))
CALL(sst_lease_holder, sst_holding *holding = JUNK(sst_holding), sst_lease_holder(of->lease, &holding, error), holding == NULL,
     sst_holding_free(holding))
BEGIN(sst_lease_holder_async, sst_on_holding, on_holding, sst_lease_holder_async(of->lease, callback, &operation, error))
SUBSCRIBE(sst_lease_observe, sst_on_holding, on_holding, sst_lease_observe(of->lease, callback, &subscription, error))

// Of these there are two callbacks.
#define BEGIN_TO_OBSERVE(name, type, function, observe)                                                   \
  static sst_status call_##name(const handle_set *of, sst_error **error) {                                    \
    sst_operation *operation = JUNK(sst_operation);                                                       \
    latch seen, received;                                                                                     \
    const type callback = {&seen, function, latch_drop};                                                  \
    const sst_on_subscription done = {&received, on_subscription, latch_drop};                                \
    sst_status status;                                                                                    \
    latch_init(&seen);                                                                                    \
    latch_init(&received);                                                                                    \
    status = name(of->observe, callback, done, &operation, error);                                        \
    status = ended(&received, status, operation, error);                                                      \
    latch_wait_drops(&seen, 1);                                                                           \
    CHECK(status != SST_OK && seen.calls == 0 && seen.drops == 1);                                        \
    latch_destroy(&seen);                                                                                 \
    return status;                                                                                        \
  }
BEGIN_TO_OBSERVE(sst_lease_observe_async, sst_on_holding, on_holding, lease)
BEGIN_TO_OBSERVE(sst_election_observe_async, sst_on_leader, on_leader, election)
CALL(sst_lock, sst_guard *guard = JUNK(sst_guard), sst_lock(of->client, BYTES, LOCK_OPTIONS, &guard, error), guard == NULL,
     sst_guard_free(guard))
BEGIN(sst_lock_async, sst_on_guard, on_guard, sst_lock_async(of->client, BYTES, LOCK_OPTIONS, callback, &operation, error))
CALL(sst_election_new, sst_election *election = JUNK(sst_election),
     sst_election_new(of->client, BYTES, LOCK_OPTIONS, &election, error), election == NULL, sst_election_free(election))
CALL(sst_election_campaign, sst_guard *guard = JUNK(sst_guard), sst_election_campaign(of->election, BYTES, &guard, error),
     guard == NULL, sst_guard_free(guard))
BEGIN(sst_election_campaign_async, sst_on_guard, on_guard,
      sst_election_campaign_async(of->election, BYTES, callback, &operation, error))
CALL(sst_election_leader, sst_leader *leader = JUNK(sst_leader), sst_election_leader(of->election, &leader, error),
     leader == NULL, sst_leader_free(leader))
BEGIN(sst_election_leader_async, sst_on_leader, on_leader, sst_election_leader_async(of->election, callback, &operation, error))
SUBSCRIBE(sst_election_observe, sst_on_leader, on_leader, sst_election_observe(of->election, callback, &subscription, error))

#endif
