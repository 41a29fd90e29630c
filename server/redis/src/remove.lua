#!lua flags=allow-oom
-- Removes an unfinished store: the one with this id, or any. Returns whether there was one.
--
-- KEYS: all names of a store, the manifest first. ARGV: format of an unfinished store, id of the store or nothing.
local found = redis.call('HMGET', KEYS[1], 'format', 'store')
if found[1] ~= ARGV[1] or ARGV[2] ~= '' and found[2] ~= ARGV[2] then
  return 0
end
for key = 1, #KEYS do
  redis.call('UNLINK', KEYS[key])
end
return 1
