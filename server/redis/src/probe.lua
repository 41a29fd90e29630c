#!lua
-- Writes what nobody reads, to see whether changes are taken: not if there is no memory, no disk, or too few replicas. KEYS: mark.
return redis.call('SET', KEYS[1], '')
