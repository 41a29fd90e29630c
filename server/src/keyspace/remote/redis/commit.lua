#!lua
-- Makes the changes of units, those of each if nothing that it compares has another revision. Looks first and writes last: what a script has
-- written stays if it fails. No unit changes what another one compares or changes, and all that are made have one revision.
--
-- KEYS: manifest, counter, floors, stream, the hash of each entry, unit by unit. ARGV: history, how many items the stream keeps, number of units,
-- of each unit the number of entries, of each (key, expected revision or nothing, record or nothing or '-' if it is not changed), and the number
-- of floors, of each (bucket, expected revision or nothing, version or nothing if it is not changed). Expected revisions end with a colon.
-- Gives for each unit the revision of its changes, or, if they are refused, of each entry what it and its floor hold.
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
local items = take()

local outcomes, fields, writes, floors = {}, {}, {}, {}
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
  if is_refused then
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
  end
end
if #fields == 0 and #floors == 0 then
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
for unit = 1, #outcomes do
  if outcomes[unit] == true then
    outcomes[unit] = revision
  end
end
return outcomes
