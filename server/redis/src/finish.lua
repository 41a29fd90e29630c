#!lua
-- Completes an unfinished store: writes the floors, and then the format in the manifest. Refuses if Redis was restarted or another master took over
-- meanwhile, since records may be lost.
--
-- KEYS: manifest, floors. ARGV: format of an unfinished store, id of this one, format of a store, value of all floors, number of buckets.
local found = redis.call('HMGET', KEYS[1], 'format', 'store', 'engine')
if found[1] ~= ARGV[1] or found[2] ~= ARGV[2] then
  return redis.error_reply('ELSEWHERE the unfinished store was removed or replaced meanwhile')
end
local engine = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
if engine ~= found[3] then
  return redis.error_reply('ELSEWHERE redis was restarted or another master took over meanwhile, and records may be lost')
end
for bucket = 0, tonumber(ARGV[5]) - 1 do
  redis.call('HSET', KEYS[2], bucket, ARGV[4])
end
redis.call('HSET', KEYS[1], 'format', ARGV[3])
return redis.status_reply('OK')
