// A part of failing.c: observers and mirrors.
#ifndef FAILING_OBSERVERS_H
#define FAILING_OBSERVERS_H

CALL(sst_observe, sst_observer *observer = JUNK(sst_observer),
     sst_observe(of->client, BYTES, OPTIONS(sst_observe_options), &observer, error), observer == NULL, sst_observer_free(observer))
BEGIN(sst_observe_async, sst_on_observer, on_observer,
      sst_observe_async(of->client, BYTES, OPTIONS(sst_observe_options), callback, &operation, error))
CALL(sst_observe_matching, sst_observer *observer = JUNK(sst_observer),
     sst_observe_matching(of->client, BYTES, OPTIONS(sst_observe_matching_options), &observer, error), observer == NULL,
     sst_observer_free(observer))
BEGIN(sst_observe_matching_async, sst_on_observer, on_observer,
      sst_observe_matching_async(of->client, BYTES, OPTIONS(sst_observe_matching_options), callback, &operation, error))
CALL(sst_observer_next, sst_observation *observation = JUNK(sst_observation),
     sst_observer_next(of->observer, 1, &observation, error), observation == NULL, sst_observation_free(observation))
BEGIN(sst_observer_next_async, sst_on_observation, on_observation,
      sst_observer_next_async(of->observer, callback, &operation, error))
#ifndef _WIN32
CALL(sst_observer_fd, int fd = 7, sst_observer_fd(of->observer, &fd, error), fd == -1, )
#endif
SUBSCRIBE(sst_observer_subscribe, sst_on_observation, on_observation,
          sst_observer_subscribe(of->observer, callback, &subscription, error))

TOLD(on_mirror, sst_mirror *mirror, mirror == NULL, mirror)
CALL(sst_mirror_new, sst_mirror *mirror = JUNK(sst_mirror),
     sst_mirror_new(of->client, BYTES, OPTIONS(sst_mirror_options), &mirror, error), mirror == NULL, sst_mirror_free(mirror))
BEGIN(sst_mirror_new_async, sst_on_mirror, on_mirror,
      sst_mirror_new_async(of->client, BYTES, OPTIONS(sst_mirror_options), callback, &operation, error))
CALL(sst_mirror_get, sst_entry *entry = JUNK(sst_entry), sst_mirror_get(of->mirror, BYTES, &entry, error), entry == NULL,
     sst_entry_free(entry))
CALL(sst_mirror_snapshot, sst_entries *entries = JUNK(sst_entries), sst_mirror_snapshot(of->mirror, &entries, error), entries == NULL,
     sst_entries_free(entries))
CALL(sst_mirror_synced, , sst_mirror_synced(of->mirror, 1, error), true, )
BEGIN(sst_mirror_synced_async, sst_on_done, on_done, sst_mirror_synced_async(of->mirror, callback, &operation, error))
CALL(sst_mirror_changes, sst_observer *observer = JUNK(sst_observer), sst_mirror_changes(of->mirror, &observer, error),
     observer == NULL, sst_observer_free(observer))
CALL(sst_mirror_close, , sst_mirror_close(of->mirror, error), true, )

#endif
