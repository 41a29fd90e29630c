#!lua
-- Writes records of an unfinished store, all with the first revision.
--
-- KEYS: manifest, and for each record the hash of its shelf and the set of the keys of its bucket. ARGV: format of an unfinished store, id of this
-- one, and key and value of each record.
local found = redis.call('HMGET', KEYS[1], 'format', 'store')
if found[1] ~= ARGV[1] or found[2] ~= ARGV[2] then
  return redis.error_reply('ELSEWHERE the unfinished store was removed or replaced meanwhile')
end
for record = 1, (#ARGV - 2) / 2 do
  local key = ARGV[2 * record + 1]
  redis.call('HSET', KEYS[2 * record], key, ARGV[2 * record + 2])
  redis.call('SADD', KEYS[2 * record + 1], key)
end
return redis.status_reply('OK')
