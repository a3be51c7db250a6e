-- Changes a subscription; what is not named stays.
--
-- ARGV[1]    its name
-- ARGV[2]    another stamp
-- ARGV[3]    epoch s
-- ARGV[4..]  field, value, field, value …
-- Returns 1, 0 when there is no such subscription; false when there is no such topic.
if redis.call('EXISTS', KEYS[1]) == 0 then
  return false
end
local known = redis.call('HGET', KEYS[2], ARGV[1])
if not known then
  return 0
end
known = cjson.decode(known)
known.modified = tonumber(ARGV[3])
for argument = 4, #ARGV, 2 do
  known[ARGV[argument]] = ARGV[argument + 1]
end
redis.call('HSET', KEYS[2], ARGV[1], cjson.encode(known))
redis.call('HSET', KEYS[1], 'stamp', ARGV[2])
return 1
