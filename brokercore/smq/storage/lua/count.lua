-- Counts anew what all accounts hold together: a store may have been filled by a service that did not count it.
--
-- KEYS[1]  set         accounts that have ever had a queue or a topic
-- KEYS[2]  sorted set  subscriptions of all accounts to which something is to be pushed, `account/topic/subscription`
-- ARGV[1]  bytes of Redis that the messages of all accounts may take; 0 for any number
-- Returns {bytes of Redis that the messages take, about; messages}.
local accounts, bytes, messages = {}, 0, 0
for _, account in ipairs(redis.call('SMEMBERS', KEYS[1])) do
  accounts[account] = true
end
for _, lane in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
  accounts[string.match(lane, '^[^/]*')] = true
end
for account in pairs(accounts) do
  local held = redis.call('HMGET', 'smq:' .. account, 'bytes', 'messages')
  bytes, messages = bytes + tonumber(held[1] or 0), messages + tonumber(held[2] or 0)
end
redis.call('HSET', ALL, 'bytes', text(bytes), 'messages', text(messages), 'most', ARGV[1])
return {bytes + messages * PLACES, messages}
