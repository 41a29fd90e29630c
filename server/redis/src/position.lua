#!lua flags=no-writes
-- The last revision, and the floors of all buckets then.
--
-- KEYS: manifest, counter, floors. ARGV: history, number of buckets.
if redis.call('HGET', KEYS[1], 'history') ~= ARGV[1] then
  return redis.error_reply('ELSEWHERE the engine has another history by now')
end
local found = {redis.call('GET', KEYS[2])}
for bucket = 0, tonumber(ARGV[2]) - 1 do
  table.insert(found, redis.call('HGET', KEYS[3], bucket))
end
return found
