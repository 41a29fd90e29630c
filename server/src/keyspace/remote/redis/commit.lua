#!lua
-- Makes the changes of units, those of each if nothing that it compares has another revision. Looks first and writes last: what a script has
-- written stays if it fails. No unit changes what another one compares or changes, and all that are made have one revision.
--
-- KEYS: manifest, counter, floors, stream, of each unit the hash of each entry and the place of the answer to its request if there is one. ARGV:
-- history, how many items the stream keeps, for how many seconds answers are kept, number of units, of each unit the number of entries, of
-- each (key, expected revision or nothing, record or nothing or '-' if it is not changed), the number of floors, of each (bucket, expected
-- revision or nothing, version or nothing if it is not changed), and the answer, or nothing. Expected revisions end with a colon.
-- Gives for each unit the revision of its changes, or, if its request was answered before, that answer alone in a table, or, if they are
-- refused, of each entry what it and its floor hold.
local argument, hash = 0, 4
local function take()
  argument = argument + 1
  return ARGV[argument]
end

-- What has never been written has the revision zero.
local function has(value, expected)
  if not value then
    return expected == '0:'
  end
  return string.sub(value, 1, #expected) == expected
end

if redis.call('HGET', KEYS[1], 'history') ~= take() then
  return redis.error_reply('ELSEWHERE the engine has another history by now')
end
local items, seconds = take(), take()

local outcomes, fields, writes, floors, answers = {}, {}, {}, {}, {}
for unit = 1, tonumber(take()) do
  local first, keys, values, records = hash + 1, {}, {}, {}
  local is_refused = false
  for entry = 1, tonumber(take()) do
    hash = hash + 1
    local key, expected, record = take(), take(), take()
    local value = redis.call('HGET', KEYS[hash], key)
    keys[entry], values[entry], records[entry] = key, value, record
    is_refused = is_refused or (expected ~= '' and not has(value, expected))
  end
  local changed = {}
  for _ = 1, tonumber(take()) do
    local bucket, expected, version = take(), take(), take()
    is_refused = is_refused or (expected ~= '' and not has(redis.call('HGET', KEYS[3], bucket), expected))
    if version ~= '' then
      table.insert(changed, {bucket, version})
    end
  end
  local answer, former = take(), false
  local place
  if answer ~= '' then
    hash = hash + 1
    place = KEYS[hash]
    former = redis.call('GET', place)
  end
  if former then
    outcomes[unit] = {former}
  elseif is_refused then
    local found = {}
    for entry = 1, #keys do
      local bucket = tonumber(string.sub(KEYS[first + entry - 1], -4), 16)
      found[2 * entry - 1] = values[entry]
      found[2 * entry] = redis.call('HGET', KEYS[3], bucket)
    end
    outcomes[unit] = found
  else
    outcomes[unit] = true
    for entry, record in ipairs(records) do
      if record ~= '-' then
        fields[#fields + 1] = keys[entry]
        fields[#fields + 1] = record
        writes[#writes + 1] = KEYS[first + entry - 1]
      end
    end
    for _, floor in ipairs(changed) do
      floors[#floors + 1] = floor
    end
    if place then
      answers[#answers + 1] = {place, answer}
    end
  end
end
if #fields == 0 and #floors == 0 and #answers == 0 then
  return outcomes
end

local revision = string.format('%.0f', redis.call('INCR', KEYS[2]))
if #fields == 0 then
  redis.call('XADD', KEYS[4], 'MAXLEN', '~', items, revision .. '-0', '', '')
else
  redis.call('XADD', KEYS[4], 'MAXLEN', '~', items, revision .. '-0', unpack(fields))
end
local prefix = revision .. ':'
for place, name in ipairs(writes) do
  local key, record = fields[2 * place - 1], fields[2 * place]
  if record == '' then
    redis.call('HDEL', name, key)
  else
    redis.call('HSET', name, key, prefix .. record)
  end
end
for _, floor in ipairs(floors) do
  redis.call('HSET', KEYS[3], floor[1], prefix .. floor[2])
end
for _, made in ipairs(answers) do
  redis.call('SET', made[1], made[2], 'EX', seconds)
end
for unit = 1, #outcomes do
  if outcomes[unit] == true then
    outcomes[unit] = revision
  end
end
return outcomes
