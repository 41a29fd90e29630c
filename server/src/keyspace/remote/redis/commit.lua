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
local KEYS, ARGV, call, sub = KEYS, ARGV, redis.call, string.sub

-- What has never been written has the revision zero.
local function has(value, expected)
  if not value then
    return expected == '0:'
  end
  return sub(value, 1, #expected) == expected
end

if call('HGET', KEYS[1], 'history') ~= ARGV[1] then
  return redis.error_reply('ELSEWHERE the engine has another history by now')
end
local items, seconds = ARGV[2], ARGV[3]

local outcomes, fields, writes, floors, answers = {}, {}, {}, {}, {}
local made = 0
-- The last argument and the last hash that were used.
local argument, hash = 4, 4
for unit = 1, tonumber(ARGV[4]) do
  -- Most units have one entry and nothing else: no table is made for them. An entry has the arguments from 3 * entry - 2 on behind `entries`.
  local hashes, entries, count = hash, argument + 1, tonumber(ARGV[argument + 1])
  local is_refused = false
  for entry = 1, count do
    local expected = ARGV[entries + 3 * entry - 1]
    if expected ~= '' and not has(call('HGET', KEYS[hashes + entry], ARGV[entries + 3 * entry - 2]), expected) then
      is_refused = true
    end
  end
  hash = hash + count
  argument = entries + 3 * count + 1
  local changed
  for _ = 1, tonumber(ARGV[argument]) do
    local bucket, expected, version = ARGV[argument + 1], ARGV[argument + 2], ARGV[argument + 3]
    argument = argument + 3
    if expected ~= '' and not has(call('HGET', KEYS[3], bucket), expected) then
      is_refused = true
    end
    if version ~= '' then
      changed = changed or {}
      changed[#changed + 1] = {bucket, version}
    end
  end
  argument = argument + 1
  local answer, former = ARGV[argument], false
  if answer ~= '' then
    hash = hash + 1
    former = call('GET', KEYS[hash])
  end
  if former then
    outcomes[unit] = {former}
  elseif is_refused then
    local found = {}
    for entry = 1, count do
      local name = KEYS[hashes + entry]
      local bucket = tonumber(sub(name, -4), 16)
      found[2 * entry - 1] = call('HGET', name, ARGV[entries + 3 * entry - 2])
      found[2 * entry] = call('HGET', KEYS[3], bucket)
    end
    outcomes[unit] = found
  else
    outcomes[unit] = true
    for entry = 1, count do
      local record = ARGV[entries + 3 * entry]
      if record ~= '-' then
        made = made + 1
        fields[2 * made - 1] = ARGV[entries + 3 * entry - 2]
        fields[2 * made] = record
        writes[made] = KEYS[hashes + entry]
      end
    end
    for place = 1, changed and #changed or 0 do
      floors[#floors + 1] = changed[place]
    end
    if answer ~= '' then
      answers[#answers + 1] = {KEYS[hash], answer}
    end
  end
end
if made == 0 and #floors == 0 and #answers == 0 then
  return outcomes
end

local revision = string.format('%.0f', call('INCR', KEYS[2]))
if made == 0 then
  call('XADD', KEYS[4], 'MAXLEN', '~', items, revision .. '-0', '', '')
else
  call('XADD', KEYS[4], 'MAXLEN', '~', items, revision .. '-0', unpack(fields))
end
local prefix = revision .. ':'
for place = 1, made do
  local name, key, record = writes[place], fields[2 * place - 1], fields[2 * place]
  if record == '' then
    call('HDEL', name, key)
  else
    call('HSET', name, key, prefix .. record)
  end
end
for _, floor in ipairs(floors) do
  call('HSET', KEYS[3], floor[1], prefix .. floor[2])
end
for _, made in ipairs(answers) do
  call('SET', made[1], made[2], 'EX', seconds)
end
for unit = 1, #outcomes do
  if outcomes[unit] == true then
    outcomes[unit] = revision
  end
end
return outcomes
