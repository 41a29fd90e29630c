#!lua flags=allow-oom
-- Finds the store of a prefix, or makes it, and notices that the engine goes on from another history: after a restart, or on a replica that
-- took over, its replication has another name. The counter of revisions jumps then, so that none is given twice.
--
-- KEYS: manifest, counter, floors, stream, the entries of each shelf, the keys of each bucket. ARGV: format, id of a new store or nothing if none may
-- be made, number of buckets, how far the counter jumps.
local manifest, counter, floors, stream = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local format, new_id, buckets, jump = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]

local replication = redis.call('INFO', 'replication')
if not string.find(replication, 'role:master', 1, true) then
  return {'replica'}
end
local engine = string.match(replication, 'master_replid:(%x+)')
if not engine then
  return {'nameless'}
end

local found = redis.call('HMGET', manifest, 'format', 'store', 'history', 'engine')
if not found[1] then
  if new_id == '' then
    return {'gone'}
  end
  for key = 1, #KEYS do
    if redis.call('EXISTS', KEYS[key]) > 0 then
      return {'without', KEYS[key]}
    end
  end
  for bucket = 0, buckets - 1 do
    redis.call('HSET', floors, bucket, '0:0:0')
  end
  redis.call('SET', counter, '1')
  redis.call('HSET', manifest, 'format', format, 'store', new_id, 'history', '1', 'engine', engine)
  return {'found', new_id, '1'}
end
if found[1] ~= format or not (found[2] and found[3] and found[4]) then
  return {'foreign', found[1]}
end
local history = found[3]
if found[4] ~= engine then
  redis.call('INCRBY', counter, jump)
  history = tostring(redis.call('HINCRBY', manifest, 'history', 1))
  redis.call('HSET', manifest, 'engine', engine)
end
return {'found', found[2], history}
