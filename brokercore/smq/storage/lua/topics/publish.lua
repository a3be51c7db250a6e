-- Brings a message to all subscribers of a topic: into their queues, and to what is to be pushed to them.
--
-- KEYS[6..]   for each subscriber the first seven keys of its queue, or the four of its lane
-- ARGV[1]     epoch ms
-- ARGV[2]     the stamp with which the subscriptions were read
-- ARGV[3]     bytes that the account may hold; 0 for any number
-- ARGV[4]     messages that it may hold; 0 for any number
-- ARGV[5]     bytes of the message's body
-- ARGV[6]     id of the message
-- ARGV[7]     nonce of the receipt handles of delayed messages, 8 bytes
-- ARGV[8..9]  notifications, and bytes of them, that may wait in a lane
-- ARGV[10]    notifications that are pushed at a time in a lane
-- ARGV[11]    bytes of Redis that the messages of all accounts may take; 0 for any number
-- ARGV[12..]  for each subscriber: 1 for a queue and 0 for a lane; the subscription; the channel on which those are told
--             who wait for a message of the queue, or the lane; the message as a queue keeps it, or content and headers;
--             what is kept of a delivery into a queue: of one that is done, of one into no queue, of one too large; or
--             of one into a lane that is full
-- Returns how many notifications wait now; -1 when the topic has changed, -2 when the account is full, -3 when all
-- accounts together hold as much as they may; false when there is no such topic.
local stamp = redis.call('HGET', KEYS[1], 'stamp')
if not stamp then
  return false
end
if stamp ~= ARGV[2] then
  return -1
end
local now, size, nonce, room = tonumber(ARGV[1]), tonumber(ARGV[5]), ARGV[7], tonumber(ARGV[10])
local most_bytes, most_messages = tonumber(ARGV[3]), tonumber(ARGV[4])
local WORDS = 7
local bytes, messages = 0, 0
for argument = 12, #ARGV, WORDS do
  bytes, messages = bytes + #ARGV[argument + 3], messages + 1
end
local held = redis.call('HMGET', KEYS[4], 'bytes', 'messages')
if
  (most_bytes > 0 and tonumber(held[1] or 0) + bytes > most_bytes)
  or (most_messages > 0 and tonumber(held[2] or 0) + messages > most_messages)
then
  return -2
end
if messages > 0 and bytes + messages * PLACES > room_of_all(tonumber(ARGV[11])) then
  return -3
end
local key, waiting = 6, 0
bytes, messages = 0, 0

local function ended(subscription, counter, last)
  redis.call('HINCRBY', KEYS[3], subscription .. ':' .. counter, 1)
  redis.call('HSET', KEYS[3], subscription .. ':last', last)
end

local function into_queue(argument, keys)
  local queue = redis.call('HMGET', keys[1], 'id', 'DelaySeconds', 'MaximumMessageSize')
  if not queue[1] then
    return ended(ARGV[argument + 1], 'dropped', ARGV[argument + 5])
  elseif size > tonumber(queue[3]) then
    return ended(ARGV[argument + 1], 'dropped', ARGV[argument + 6])
  end
  local kept = ARGV[argument + 3]
  local _, visible, due = put(keys, now, {{kept, 8, tonumber(queue[2])}}, nonce)
  redis.call('HINCRBY', keys[1], 'bytes', #kept)
  redis.call('PUBLISH', ARGV[argument + 2], visible .. ' ' .. text(due))
  bytes, messages = bytes + #kept, messages + 1
  ended(ARGV[argument + 1], 'delivered', ARGV[argument + 4])
end

local function into_lane(argument, keys)
  local subscription, lane, record = ARGV[argument + 1], ARGV[argument + 2], ARGV[argument + 3]
  local lane_bytes = tonumber(redis.call('HGET', KEYS[3], subscription .. ':bytes') or 0)
  if redis.call('HLEN', keys[3]) >= tonumber(ARGV[8]) or lane_bytes + #record > tonumber(ARGV[9]) then
    return ended(subscription, 'dropped', ARGV[argument + 5])
  end
  redis.call('ZADD', keys[1], ARGV[1], ARGV[6])
  redis.call('HSET', keys[3], ARGV[6], record)
  redis.call('HINCRBY', KEYS[3], subscription .. ':bytes', #record)
  local known = redis.call('ZSCORE', KEYS[5], lane)
  if not known or tonumber(known) > now then  -- where something is due already, it keeps its place among all lanes
    schedule(lane, keys, room, now)
  end
  bytes, messages, waiting = bytes + #record, messages + 1, waiting + 1
end

for argument = 12, #ARGV, WORDS do
  if ARGV[argument] == '1' then
    into_queue(argument, {unpack(KEYS, key, key + 6)})
    key = key + 7
  else
    into_lane(argument, {unpack(KEYS, key, key + 3)})
    key = key + 4
  end
end
hold(KEYS[4], bytes, messages)
return waiting
