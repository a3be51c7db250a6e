-- Changes how long a message stays hidden, received or delayed; its receipt handle ends, another one holds.
--
-- ARGV[1]  epoch ms
-- ARGV[2]  of the handle: id of the queue
-- ARGV[3]  place of the message
-- ARGV[4]  nonce of the delivery
-- ARGV[5]  nonce of the new handle
-- ARGV[6]  for how long, s
-- ARGV[7]  channel that those are told on who wait for a message
-- Returns when it is visible again (epoch ms), -1 when the message is gone or the handle has ended, -2
-- when it is of another queue; false when
-- there is no such queue.
local queue = redis.call('HGET', KEYS[1], 'id')
if not queue then
  return false
end
local now = tonumber(ARGV[1])
local packed = redis.call('HGET', KEYS[6], ARGV[3])
local why, key = refusal(queue, now, ARGV[2], ARGV[3], ARGV[4], packed, redis.call('ZSCORE', KEYS[4], ARGV[3]))
if why < 0 then
  return why
end
local hidden_until = now + tonumber(ARGV[6]) * 1000
local first, times = read_state(packed)
redis.call('HSET', KEYS[6], ARGV[3], packed_state(first, times, ARGV[5]))
redis.call('ZADD', KEYS[key], text(hidden_until), ARGV[3])
redis.call('PUBLISH', ARGV[7], '0 ' .. text(hidden_until))
return hidden_until
