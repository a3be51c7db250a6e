-- What a queue is and holds now.
--
-- ARGV[1]  epoch ms
-- Returns {fields and values of the queue, active, inactive, delayed, enqueue time of the oldest message (epoch ms, 0)},
-- or false when there is no such queue.
local fields = redis.call('HGETALL', KEYS[1])
if #fields == 0 then
  return false
end
local now = tonumber(ARGV[1])
local retention = tonumber(redis.call('HGET', KEYS[1], 'MessageRetentionPeriod'))
expire(now, retention, ROUNDS)
local hidden = redis.call('ZCOUNT', KEYS[4], '(' .. ARGV[1], '+inf')
local delayed = redis.call('ZCOUNT', KEYS[3], '(' .. ARGV[1], '+inf')
local oldest = redis.call('ZRANGE', KEYS[7], 0, 0, 'WITHSCORES')
return {fields, redis.call('ZCARD', KEYS[7]) - hidden - delayed, hidden, delayed, tonumber(oldest[2] or 0)}
