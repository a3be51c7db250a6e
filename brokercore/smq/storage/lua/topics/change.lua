-- Changes attributes of a topic; what is not named stays.
--
-- ARGV[1]    another stamp
-- ARGV[2]    epoch s
-- ARGV[3..]  attributes: name, value, name, value …
-- Returns 1, or 0 when there is no such topic.
if redis.call('EXISTS', KEYS[1]) == 0 then
  return 0
end
redis.call('HSET', KEYS[1], 'stamp', ARGV[1], 'modified', unpack(ARGV, 2))
return 1
