// A part of failing.c: what is asked about a key, and what is done to it by an update.
#ifndef FAILING_KEYS_H
#define FAILING_KEYS_H

TOLD(on_presence, bool is_present, !is_present, NULL)
TOLD(on_ttl, uint64_t expires_in_ms, expires_in_ms == 0, NULL)
TOLD(on_number, int64_t number, number == 0, NULL)
TOLD(on_ping, uint64_t round_trip_us, round_trip_us == 0, NULL)

CALL(sst_exists, bool is_present = true, sst_exists(of->client, BYTES, OPTIONS(sst_get_options), &is_present, error), !is_present, )
BEGIN(sst_exists_async, sst_on_presence, on_presence,
      sst_exists_async(of->client, BYTES, OPTIONS(sst_get_options), callback, &operation, error))
CALL(sst_ttl, uint64_t ms = 7, sst_ttl(of->client, BYTES, OPTIONS(sst_get_options), &ms, error), ms == 0, )
BEGIN(sst_ttl_async, sst_on_ttl, on_ttl,
      sst_ttl_async(of->client, BYTES, OPTIONS(sst_get_options), callback, &operation, error))
CALL(sst_touch, bool is_present = true,
     sst_touch(of->client, BYTES, 60000, OPTIONS(sst_update_options), &is_present, error), !is_present, )
BEGIN(sst_touch_async, sst_on_presence, on_presence,
      sst_touch_async(of->client, BYTES, 60000, OPTIONS(sst_update_options), callback, &operation, error))
CALL(sst_incr, int64_t number = 7, sst_incr(of->client, BYTES, 1, OPTIONS(sst_update_options), &number, error), number == 0, )
BEGIN(sst_incr_async, sst_on_number, on_number,
      sst_incr_async(of->client, BYTES, 1, OPTIONS(sst_update_options), callback, &operation, error))
CALL(sst_ping, uint64_t us = 7, sst_ping(of->client, 0, &us, error), us == 0, )
BEGIN(sst_ping_async, sst_on_ping, on_ping, sst_ping_async(of->client, 0, callback, &operation, error))

#define FAILING_KEYS                                \
  REQUEST(sst_exists, HAS_BYTES | HAS_OPTIONS),       \
  REQUEST(sst_exists_async, HAS_BYTES | HAS_OPTIONS), \
  REQUEST(sst_ttl, HAS_BYTES | HAS_OPTIONS),          \
  REQUEST(sst_ttl_async, HAS_BYTES | HAS_OPTIONS),    \
  REQUEST(sst_touch, HAS_BYTES | HAS_OPTIONS),        \
  REQUEST(sst_touch_async, HAS_BYTES | HAS_OPTIONS),  \
  REQUEST(sst_incr, HAS_BYTES | HAS_OPTIONS),         \
  REQUEST(sst_incr_async, HAS_BYTES | HAS_OPTIONS),   \
  REQUEST(sst_ping, 0),                               \
  REQUEST(sst_ping_async, 0)

#endif
