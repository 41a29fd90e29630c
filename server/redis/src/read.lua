#!lua flags=no-writes
-- What keys and their floors hold, all at one moment. A transaction would do the same, but is refused when there is no memory.
--
-- KEYS: manifest, floors, the hash of each entry. ARGV: history, the bucket of each entry, the key of each, and optionally the bytes of
-- entries behind which the other keys are left out.
if redis.call('HGET', KEYS[1], 'history') ~= ARGV[1] then
  return redis.error_reply('ELSEWHERE the engine has another history by now')
end
local count = #KEYS - 2
if count == 0 then
  return {}
end
local floors = redis.call('HMGET', KEYS[2], unpack(ARGV, 2, 1 + count))
local left = tonumber(ARGV[2 + 2 * count])
local found = {}
for place = 1, count do
  local entry = redis.call('HGET', KEYS[2 + place], ARGV[1 + count + place])
  found[2 * place - 1] = entry
  found[2 * place] = floors[place]
  if left and entry then
    left = left - #entry
    if left < 0 then
      break
    end
  end
end
return found
