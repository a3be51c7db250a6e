-- Says what became of a push.
--
-- KEYS[6..9]  keys of the lane
-- KEYS[10]    sorted set  what is pushed for the account now
-- ARGV[1]     the lane
-- ARGV[2]     its subscription
-- ARGV[3]     id of the notification
-- ARGV[4]     the try that this was
-- ARGV[5]     `delivered`, `dropped`, or epoch ms at which it is to be tried again
-- ARGV[6]     what is kept of it
-- ARGV[7]     how many may be pushed at a time in the lane
-- Returns 1; 0 when the notification is gone, or somebody else pushes it now.
local keys, subscription, id, outcome = {unpack(KEYS, 6, 9)}, ARGV[2], ARGV[3], ARGV[5]
local tries = redis.call('HGET', keys[4], id)
if tries and tries ~= ARGV[4] and outcome ~= 'delivered' then
  return 0
end
redis.call('ZREM', KEYS[10], ARGV[1] .. ' ' .. id)
if not tries then
  return 0
end
redis.call('ZREM', keys[2], id)
redis.call('HSET', KEYS[3], subscription .. ':last', ARGV[6])
if outcome ~= 'delivered' then
  redis.call('HINCRBY', KEYS[3], subscription .. ':failures', 1)
end
if outcome == 'delivered' or outcome == 'dropped' then
  local size = redis.call('HSTRLEN', keys[3], id)
  redis.call('ZREM', keys[1], id)
  redis.call('HDEL', keys[3], id)
  redis.call('HDEL', keys[4], id)
  redis.call('HINCRBY', KEYS[3], subscription .. ':' .. outcome, 1)
  redis.call('HINCRBY', KEYS[3], subscription .. ':bytes', -size)
  hold(KEYS[4], -size, -1)
else
  redis.call('ZADD', keys[1], outcome, id)
end
schedule(ARGV[1], keys, tonumber(ARGV[7]), 0)
return 1
