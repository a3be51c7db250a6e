-- Adds messages to a queue.
--
-- ARGV[1]    epoch ms
-- ARGV[2]    channel that those are told on who wait for a message
-- ARGV[3]    bytes that the account's queues may hold; 0 for any number
-- ARGV[4]    messages that they may hold; 0 for any number
-- ARGV[5]    nonce of the receipt handles of delayed messages, 8 bytes
-- ARGV[6]    bytes of Redis that the messages of all accounts may take; 0 for any number
-- ARGV[7..]  for each message: as it is kept, bytes of its body, delay in s (empty: the queue's), priority
-- Returns {id of the queue}, then for each message its number, -1 when its body is larger than the queue takes, or -2
-- when the account is full, -3 when all accounts together hold as much as they may, and 1 when it is delayed, else 0; false when there is no such queue.
local queue = redis.call('HMGET', KEYS[1], 'id', 'DelaySeconds', 'MaximumMessageSize')
if not queue[1] then
  return false
end
local now, most_bytes, most_messages = tonumber(ARGV[1]), tonumber(ARGV[3]), tonumber(ARGV[4])
local held = redis.call('HMGET', KEYS[8], 'bytes', 'messages')
local held_bytes, held_messages = tonumber(held[1] or 0), tonumber(held[2] or 0)
local answer, messages, numbered, bytes, left = {queue[1]}, {}, {}, 0, room_of_all(tonumber(ARGV[6]))
for argument = 7, #ARGV, 4 do
  local kept, size = ARGV[argument], tonumber(ARGV[argument + 1])
  if size > tonumber(queue[3]) then
    answer[#answer + 1] = -1
    answer[#answer + 1] = 0
  elseif
    (most_bytes > 0 and held_bytes + bytes + #kept > most_bytes)
    or (most_messages > 0 and held_messages + #messages >= most_messages)
  then
    answer[#answer + 1] = -2
    answer[#answer + 1] = 0
  elseif #kept + PLACES > left then
    answer[#answer + 1] = -3
    answer[#answer + 1] = 0
  else
    left = left - #kept - PLACES
    local delay = tonumber(ARGV[argument + 2] ~= '' and ARGV[argument + 2] or queue[2])
    messages[#messages + 1] = {kept, ARGV[argument + 3], delay}
    bytes = bytes + #kept
    numbered[#messages] = #answer + 1
    answer[#answer + 1] = 0
    answer[#answer + 1] = delay > 0 and 1 or 0
  end
end
if #messages > 0 then
  local first, visible, due = put(KEYS, now, messages, ARGV[5])
  for index, position in ipairs(numbered) do
    answer[position] = first + index - 1
  end
  redis.call('HINCRBY', KEYS[1], 'bytes', bytes)
  hold(KEYS[8], bytes, #messages)
  redis.call('PUBLISH', ARGV[2], visible .. ' ' .. text(due))
end
return answer
