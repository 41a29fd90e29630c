#!lua
-- Makes the changes of units, those of each if nothing that it compares has another revision. Looks first and writes last: what a script has
-- written stays if it fails. No unit changes what another one compares or changes, and all that are made have one revision.
--
-- A plain unit compares one entry that there is, and gives it another record. Most are plain, and commands are what a script costs: plain units
-- are ordered by their shelves, so that there is one command for those of each.
--
-- KEYS: manifest, counter, floors, stream, of each shelf that plain units are on its hash; of each other unit, for each entry the hash of its shelf
-- and the set of the keys of its bucket, and the place of the answer to its request if there is one.
-- ARGV: history, how many items the stream keeps, for how many seconds answers are kept, number of shelves, a byte for each unit, plain ones first:
-- where it comes among all that are told; the buckets of plain units, four hexadecimal digits each; of each shelf the number of its plain
-- units; the keys of plain units, their expected revisions, (key, record) of each; number of other units, of each the number of entries, of each
-- (bucket, key, expected revision or nothing, record or nothing or '-' if it is not changed), the number of floors, of each (bucket, expected
-- revision or nothing, version or nothing if it is not changed), and the answer, or nothing. Expected revisions end with a colon.
-- Gives the revision of the changes if all were made. Otherwise for each unit, plain ones first, that revision, or, if its request was
-- answered before, that answer alone in a table, or, if it is refused, of each entry what it and its floor hold.
local KEYS, ARGV, call, sub, byte = KEYS, ARGV, redis.call, string.sub, string.byte

if call('HGET', KEYS[1], 'history') ~= ARGV[1] then
  return redis.error_reply('ELSEWHERE the engine has another history by now')
end
local items, seconds, shelves, order, buckets = ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5], ARGV[6]
local plain = #buckets / 4
-- The arguments behind these are of plain units: keys, expected revisions, and keys with records. Then come other units.
local keys, expected, records = 6 + shelves, 6 + shelves + plain, 6 + shelves + 2 * plain
local others = records + 2 * plain + 1

-- What those plain units hold that are refused.
local refused
local before = 0
for shelf = 1, shelves do
  local count = tonumber(ARGV[6 + shelf])
  local values = call('HMGET', KEYS[4 + shelf], unpack(ARGV, keys + before + 1, keys + before + count))
  for place = 1, count do
    local value, wanted = values[place], ARGV[expected + before + place]
    if not value or sub(value, 1, #wanted) ~= wanted then
      local unit = before + place
      refused = refused or {}
      refused[unit] = {value, call('HGET', KEYS[3], tonumber(sub(buckets, 4 * unit - 3, 4 * unit), 16))}
    end
  end
  before = before + count
end

local function next_revision()
  return string.format('%.0f', call('INCR', KEYS[2]))
end

if not refused and ARGV[others] == '0' then
  local revision = next_revision()
  -- The last field says in which order they are to be told.
  ARGV[others], ARGV[others + 1] = '', order
  call('XADD', KEYS[4], 'MAXLEN', '~', items, revision .. '-0', unpack(ARGV, records + 1, others + 1))
  local prefix = revision .. ':'
  for record = records + 2, others - 1, 2 do
    ARGV[record] = prefix .. ARGV[record]
  end
  local first = records + 1
  for shelf = 1, shelves do
    local behind = first + 2 * tonumber(ARGV[6 + shelf])
    call('HSET', KEYS[4 + shelf], unpack(ARGV, first, behind - 1))
    first = behind
  end
  return revision
end

-- What has never been written has the revision zero.
local function has(value, wanted)
  if not value then
    return wanted == '0:'
  end
  return sub(value, 1, #wanted) == wanted
end

-- Of each entry that is changed where it comes, its key and record, its hash, and the set for its key if that may change.
local outcomes, made, floors, answers = {}, {}, {}, {}
local unit = 0
for shelf = 1, shelves do
  for _ = 1, tonumber(ARGV[6 + shelf]) do
    unit = unit + 1
    local found = refused and refused[unit]
    outcomes[unit] = found or true
    if not found then
      local record = records + 2 * unit
      made[#made + 1] = {256 * byte(order, unit), ARGV[record - 1], ARGV[record], KEYS[4 + shelf]}
    end
  end
end

-- The last argument and the last name that were used.
local argument, name = others, 4 + shelves
for unit = plain + 1, plain + tonumber(ARGV[others]) do
  local names, entries, count = name, argument + 1, tonumber(ARGV[argument + 1])
  local is_refused, values = false, {}
  -- An entry has the names from 2 * entry - 1 on behind `names`, and the arguments from 4 * entry - 3 on behind `entries`.
  for entry = 1, count do
    local wanted = ARGV[entries + 4 * entry - 1]
    if wanted ~= '' then
      values[entry] = call('HGET', KEYS[names + 2 * entry - 1], ARGV[entries + 4 * entry - 2])
      is_refused = is_refused or not has(values[entry], wanted)
    end
  end
  name = name + 2 * count
  argument = entries + 4 * count + 1
  local changed = {}
  for _ = 1, tonumber(ARGV[argument]) do
    local bucket, wanted, version = ARGV[argument + 1], ARGV[argument + 2], ARGV[argument + 3]
    argument = argument + 3
    if wanted ~= '' and not has(call('HGET', KEYS[3], bucket), wanted) then
      is_refused = true
    end
    if version ~= '' then
      changed[#changed + 1] = {bucket, version}
    end
  end
  argument = argument + 1
  local answer, former = ARGV[argument], false
  if answer ~= '' then
    name = name + 1
    former = call('GET', KEYS[name])
  end
  if former then
    outcomes[unit] = {former}
  elseif is_refused then
    local seen = {}
    for entry = 1, count do
      seen[2 * entry - 1] = call('HGET', KEYS[names + 2 * entry - 1], ARGV[entries + 4 * entry - 2])
      seen[2 * entry] = call('HGET', KEYS[3], ARGV[entries + 4 * entry - 3])
    end
    outcomes[unit] = seen
  else
    outcomes[unit] = true
    for entry = 1, count do
      local record = ARGV[entries + 4 * entry]
      if record ~= '-' then
        -- The set has the keys of records that were found.
        local set = not (values[entry] and record ~= '') and KEYS[names + 2 * entry]
        local place = 256 * byte(order, unit) + entry
        made[#made + 1] = {place, ARGV[entries + 4 * entry - 2], record, KEYS[names + 2 * entry - 1], set}
      end
    end
    for _, floor in ipairs(changed) do
      floors[#floors + 1] = floor
    end
    if answer ~= '' then
      answers[#answers + 1] = {KEYS[name], answer}
    end
  end
end
if #made == 0 and #floors == 0 and #answers == 0 then
  return outcomes
end

local revision = next_revision()
table.sort(made, function(one, other) return one[1] < other[1] end)
local fields = {}
for place, entry in ipairs(made) do
  fields[2 * place - 1], fields[2 * place] = entry[2], entry[3]
end
if #made == 0 then
  fields = {'', ''}
end
call('XADD', KEYS[4], 'MAXLEN', '~', items, revision .. '-0', unpack(fields))
local prefix = revision .. ':'
for _, entry in ipairs(made) do
  local key, record, entries, set = entry[2], entry[3], entry[4], entry[5]
  if record == '' then
    call('HDEL', entries, key)
    call('SREM', set, key)
  else
    call('HSET', entries, key, prefix .. record)
    if set then
      call('SADD', set, key)
    end
  end
end
for _, floor in ipairs(floors) do
  call('HSET', KEYS[3], floor[1], prefix .. floor[2])
end
for _, given in ipairs(answers) do
  call('SET', given[1], given[2], 'EX', seconds)
end
for unit = 1, #outcomes do
  if outcomes[unit] == true then
    outcomes[unit] = revision
  end
end
return outcomes
