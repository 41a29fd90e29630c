#!lua
-- Makes changes if nothing that they compare has another revision. Looks first and writes last: what a script has written stays if it fails.
--
-- KEYS: manifest, counter, floors, stream, the hash of each entry, the place of the answer if there is one. ARGV: history, how many items the
-- stream keeps, for how many seconds the answer is kept and the answer, or nothing and nothing, number of entries, of each
-- (key, bucket, expected revision or nothing), number of compared floors, of each (bucket, expected revision), number of changed entries, of
-- each (its place among the entries, record or nothing), number of changed floors, of each (bucket, version).
-- Gives the revision of the changes, or the answer alone in a table if there was one, or, if they are refused, of each entry what it and its
-- floor hold.
local next_argument = 1
local function take()
  local argument = ARGV[next_argument]
  next_argument = next_argument + 1
  return argument
end

local function revision_of(value)
  if not value then
    return '0'
  end
  return string.sub(value, 1, string.find(value, ':', 1, true) - 1)
end

if redis.call('HGET', KEYS[1], 'history') ~= take() then
  return redis.error_reply('ELSEWHERE the engine has another history by now')
end
local items = take()
local answer_seconds, answer = take(), take()
if answer_seconds ~= '' then
  local former = redis.call('GET', KEYS[#KEYS])
  if former then
    return {former}
  end
end

local is_refused = false
local keys, found = {}, {}
for place = 1, tonumber(take()) do
  local key, bucket, expected = take(), take(), take()
  local value = redis.call('HGET', KEYS[4 + place], key)
  keys[place] = key
  table.insert(found, value)
  table.insert(found, redis.call('HGET', KEYS[3], bucket))
  is_refused = is_refused or (expected ~= '' and expected ~= revision_of(value))
end
for _ = 1, tonumber(take()) do
  local bucket, expected = take(), take()
  is_refused = is_refused or expected ~= revision_of(redis.call('HGET', KEYS[3], bucket))
end
if is_refused then
  return found
end

local changes, fields = {}, {}
for _ = 1, tonumber(take()) do
  local place, record = tonumber(take()), take()
  table.insert(changes, {place, record})
  table.insert(fields, keys[place])
  table.insert(fields, record)
end
if #fields == 0 then
  fields = {'', ''}
end
local revision = string.format('%.0f', redis.call('INCR', KEYS[2]))
redis.call('XADD', KEYS[4], 'MAXLEN', '~', items, revision .. '-0', unpack(fields))
for _, change in ipairs(changes) do
  local place, record = change[1], change[2]
  if record == '' then
    redis.call('HDEL', KEYS[4 + place], keys[place])
  else
    redis.call('HSET', KEYS[4 + place], keys[place], revision .. ':' .. record)
  end
end
for _ = 1, tonumber(take()) do
  local bucket, version = take(), take()
  redis.call('HSET', KEYS[3], bucket, revision .. ':' .. version)
end
if answer_seconds ~= '' then
  redis.call('SET', KEYS[#KEYS], answer, 'EX', answer_seconds)
end
return revision
