#!lua flags=allow-oom
-- Keeps what the wall clock of a node shows. Those that have told nothing for long are forgotten.
--
-- KEYS: manifest, clocks. ARGV: history, for how many milliseconds a clock is kept, the name of the node, what its clock shows in milliseconds.
if redis.call('HGET', KEYS[1], 'history') ~= ARGV[1] then
  return redis.error_reply('ELSEWHERE the engine has another history by now')
end
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local clocks = redis.call('HGETALL', KEYS[2])
for field = 1, #clocks, 2 do
  local at = string.match(clocks[field + 1], '^%d+:(%d+)$')
  -- Redis's clock may have been set back as well.
  if not at or math.abs(now - tonumber(at)) > tonumber(ARGV[2]) then
    redis.call('HDEL', KEYS[2], clocks[field])
  end
end
return redis.call('HSET', KEYS[2], ARGV[3], ARGV[4] .. ':' .. string.format('%.0f', now))
