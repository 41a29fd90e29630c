#!lua flags=no-writes
-- What keys and their floors hold, all at one moment. A transaction would do the same, but is refused when there is no memory.
--
-- KEYS: manifest, floors, the hash of each entry. ARGV: history, of each entry (key, bucket).
if redis.call('HGET', KEYS[1], 'history') ~= ARGV[1] then
  return redis.error_reply('ELSEWHERE the engine has another history by now')
end
local found = {}
for place = 1, #KEYS - 2 do
  table.insert(found, redis.call('HGET', KEYS[2 + place], ARGV[2 * place]))
  table.insert(found, redis.call('HGET', KEYS[2], ARGV[2 * place + 1]))
end
return found
