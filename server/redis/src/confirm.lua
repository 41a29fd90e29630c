#!lua flags=allow-oom
-- Writes what replicas are to confirm. KEYS: mark.
return redis.call('SET', KEYS[1], '')
