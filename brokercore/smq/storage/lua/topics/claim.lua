-- Takes notifications of a lane that are due; who takes them pushes them until a lease ends.
--
-- KEYS[6..9]  keys of the lane
-- KEYS[10]    sorted set  what is pushed for the account now, `lane notification`; score as in a lane
-- ARGV[1]     epoch ms
-- ARGV[2]     epoch ms at which the lease ends
-- ARGV[3]     how many are wanted at most
-- ARGV[4]     how many may be pushed at a time in the lane
-- ARGV[5]     how many for the account
-- ARGV[6]     the lane
-- ARGV[7]     its subscription
-- ARGV[8]     after how many ms the lane is looked at again when the account pushes as many as it may
-- Returns {the subscription, JSON; how many more may be pushed for the account, without these}, then for each notification its id, how often it was tried with this time, content
-- and headers; false when there is no such subscription.
local now, keys = tonumber(ARGV[1]), {unpack(KEYS, 6, 9)}
local subscription = redis.call('HGET', KEYS[2], ARGV[7])
if not subscription then
  redis.call('ZREM', KEYS[5], ARGV[6])
  return false
end
for _, id in ipairs(redis.call('ZRANGEBYSCORE', keys[2], '-inf', ARGV[1])) do
  redis.call('ZREM', keys[2], id)
  redis.call('ZADD', keys[1], ARGV[1], id)
end
redis.call('ZREMRANGEBYSCORE', KEYS[10], '-inf', ARGV[1])
local account_room = tonumber(ARGV[5]) - redis.call('ZCARD', KEYS[10])
local free = math.min(tonumber(ARGV[3]), tonumber(ARGV[4]) - redis.call('ZCARD', keys[2]), account_room)
local answer = {subscription, account_room}
if free > 0 then
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', keys[1], '-inf', ARGV[1], 'LIMIT', 0, free)) do
    redis.call('ZREM', keys[1], id)
    redis.call('ZADD', keys[2], ARGV[2], id)
    redis.call('ZADD', KEYS[10], ARGV[2], ARGV[6] .. ' ' .. id)
    local tries = redis.call('HINCRBY', keys[4], id, 1)
    for _, value in ipairs({id, tries, redis.call('HGET', keys[3], id)}) do
      answer[#answer + 1] = value
    end
  end
end
schedule(ARGV[6], keys, tonumber(ARGV[4]), account_room <= 0 and now + tonumber(ARGV[8]) or 0)
return answer
