-- Drops messages that have been kept for as long as the queue keeps any.
--
-- ARGV[1]  epoch ms
-- Returns 1, or 0 when there is no such queue.
local retention = redis.call('HGET', KEYS[1], 'MessageRetentionPeriod')
if not retention then
  return 0
end
expire(tonumber(ARGV[1]), tonumber(retention), ROUNDS)
return 1
