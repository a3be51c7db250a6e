-- What the scripts of topics share. The keys of a topic, always the first of a script:
--
-- KEYS[1]  hash        the topic: its attributes, id, created, modified, stamp (another one after each change of the
--          topic or of its subscriptions)
-- KEYS[2]  hash        name of a subscription -> the subscription, JSON
-- KEYS[3]  hash        what became of notifications: <subscription>:delivered, :failures, :dropped, :bytes (of those
--          that wait), :last ([epoch ms, status, error], JSON)
-- KEYS[4]  hash        the account: messages and bytes that its queues hold, and its notifications that wait
-- KEYS[5]  sorted set  lanes of all accounts; score = epoch ms at which something is to be done there. A lane has the
--          notifications of one subscription that are to be pushed
--
-- The keys of a lane:
--   1  sorted set  notifications to be pushed; score = epoch ms
--   2  sorted set  those that somebody pushes now; score = epoch ms at which they are to be pushed by somebody else
--   3  hash        notification -> content and headers
--   4  hash        notification -> how often it was tried

-- Removes a lane with all that waits in it.
local function close_lane(lane, subscription, keys)
  hold(KEYS[4], -tonumber(redis.call('HGET', KEYS[3], subscription .. ':bytes') or 0), -redis.call('HLEN', keys[3]))
  redis.call('UNLINK', unpack(keys))
  redis.call('ZREM', KEYS[5], lane)
  for _, field in ipairs({'delivered', 'failures', 'dropped', 'bytes', 'last'}) do
    redis.call('HDEL', KEYS[3], subscription .. ':' .. field)
  end
end

-- Says when something is to be done in a lane: at once where `room` is left and something is due.
local function schedule(lane, keys, room, not_before)
  local at = nil
  if redis.call('ZCARD', keys[2]) < room then
    at = tonumber(redis.call('ZRANGE', keys[1], 0, 0, 'WITHSCORES')[2])
  end
  local lease = tonumber(redis.call('ZRANGE', keys[2], 0, 0, 'WITHSCORES')[2])
  if lease and (not at or lease < at) then
    at = lease
  end
  if at then
    redis.call('ZADD', KEYS[5], text(math.max(at, not_before)), lane)
  else
    redis.call('ZREM', KEYS[5], lane)
  end
end

