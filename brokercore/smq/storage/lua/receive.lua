-- Receives messages: they are hidden for the queue's visibility timeout.
--
-- ARGV[1]  epoch ms
-- ARGV[2]  how many at most
-- ARGV[3]  nonce of their receipt handles, 8 bytes
-- Returns {id of the queue, when they are visible again, when the next message becomes visible by itself (epoch ms, 0),
-- how long the queue lets a receive wait (s)}, then for each message its place, the message, first received (epoch ms),
-- times received; false when there is no such queue. With no message, and one that becomes visible now: much was too old
-- and is dropped, and what comes behind it has not been looked at, as others wait meanwhile.
local queue = redis.call('HMGET', KEYS[1], 'id', 'VisibilityTimeout', 'MessageRetentionPeriod', 'PollingWaitSeconds')
if not queue[1] then
  return false
end
local now, count, retention = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(queue[3])
expire(now, retention, 1)
local due = promote(now)
local hidden_until = now + tonumber(queue[2]) * 1000
local answer, hidden, states = {queue[1], hidden_until, due, tonumber(queue[4])}, {}, {}
local rounds = 0  -- in which something was too old
while #states < count * 2 and rounds < ROUNDS do
  local popped, places, gone = redis.call('ZPOPMIN', KEYS[2], count - #states / 2), {}, {}
  if #popped == 0 then
    break
  end
  for index = 1, #popped, 2 do
    places[#places + 1] = popped[index]
  end
  local all_kept, all_states = redis.call('HMGET', KEYS[5], unpack(places)), redis.call('HMGET', KEYS[6], unpack(places))
  for index, place in ipairs(places) do
    local kept = all_kept[index]
    if enqueued(kept) + retention * 1000 <= now then
      gone[#gone + 1] = place
    else
      local first, times = read_state(all_states[index])
      if times == 0 then
        first = now
      end
      hidden[#hidden + 1] = text(hidden_until)
      hidden[#hidden + 1] = place
      states[#states + 1] = place
      states[#states + 1] = packed_state(first, times + 1, ARGV[3])
      for _, value in ipairs({place, kept, first, times + 1}) do
        answer[#answer + 1] = value
      end
    end
  end
  if #gone > 0 then
    rounds = rounds + 1
    drop(gone, {})
    expire(now, retention, 1)
  end
end
if #states == 0 and rounds == ROUNDS then
  answer[3] = now
end
if #states > 0 then
  redis.call('ZADD', KEYS[4], unpack(hidden))
  redis.call('HSET', KEYS[6], unpack(states))
  redis.call('HINCRBY', KEYS[1], 'received', #states / 2)
  if due == 0 or hidden_until < due then
    answer[3] = hidden_until
  end
end
return answer
