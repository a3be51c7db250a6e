-- Looks at the messages that would be received next, and changes nothing of them.
--
-- ARGV[1]  epoch ms
-- ARGV[2]  how many at most
-- Returns {id of the queue}, then for each message its place, the message, first received (epoch ms), times received;
-- false when there is no such queue.
local queue = redis.call('HMGET', KEYS[1], 'id', 'MessageRetentionPeriod')
if not queue[1] then
  return false
end
local now = tonumber(ARGV[1])
expire(now, tonumber(queue[2]), ROUNDS)
promote(now)
local answer = {queue[1]}
for _, place in ipairs(redis.call('ZRANGE', KEYS[2], 0, tonumber(ARGV[2]) - 1)) do
  local first, times = state_of(place)
  for _, value in ipairs({place, redis.call('HGET', KEYS[5], place), first, times}) do
    answer[#answer + 1] = value
  end
end
return answer
