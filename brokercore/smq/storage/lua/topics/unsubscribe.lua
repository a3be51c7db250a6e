-- Removes a subscription, with all that it waits for.
--
-- KEYS[6..9]  keys of its lane
-- ARGV[1]     its name
-- ARGV[2]     its lane
-- ARGV[3]     another stamp
-- Returns 1, 0 when there is no such subscription; false when there is no such topic.
if redis.call('EXISTS', KEYS[1]) == 0 then
  return false
end
if redis.call('HDEL', KEYS[2], ARGV[1]) == 0 then
  return 0
end
close_lane(ARGV[2], ARGV[1], {unpack(KEYS, 6, 9)})
redis.call('HSET', KEYS[1], 'stamp', ARGV[3])
return 1
