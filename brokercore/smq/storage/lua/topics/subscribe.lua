-- Subscribes to a topic.
--
-- ARGV[1]  name of the subscription
-- ARGV[2]  the subscription, JSON
-- ARGV[3]  another stamp
-- ARGV[4]  subscriptions that a topic may have
-- Returns 1; 0 when it is there and the same, -1 when it is another, -2 when there are as many as may be; false when
-- there is no such topic.
if redis.call('EXISTS', KEYS[1]) == 0 then
  return false
end
local known = redis.call('HGET', KEYS[2], ARGV[1])
if known then
  known = cjson.decode(known)
  local wanted = cjson.decode(ARGV[2])
  for _, field in ipairs({'endpoint', 'strategy', 'format', 'tag'}) do
    if known[field] ~= wanted[field] then
      return -1
    end
  end
  return 0
end
if redis.call('HLEN', KEYS[2]) >= tonumber(ARGV[4]) then
  return -2
end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
redis.call('HSET', KEYS[1], 'stamp', ARGV[3])
return 1
