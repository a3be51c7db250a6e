-- Removes a queue and all that is in it.
--
-- ARGV[1]  its name
-- ARGV[2]  channel that those are told on who wait for a message
-- Returns 1, or 0 when there is no such queue.
if redis.call('EXISTS', KEYS[1]) == 0 then
  return 0
end
hold(KEYS[8], -redis.call('HGET', KEYS[1], 'bytes'), -redis.call('ZCARD', KEYS[7]))
redis.call('UNLINK', unpack(KEYS, 1, 7))
redis.call('ZREM', KEYS[9], ARGV[1])
redis.call('PUBLISH', ARGV[2], 'gone')
return 1
