-- Deletes received messages.
--
-- ARGV[1]    epoch ms
-- ARGV[2..]  of each handle: id of the queue, place of the message, nonce of the delivery
-- Returns for each 0, -1 when the message is gone or the handle has ended, -2 when it is of another queue; false when
-- there is no such queue.
local queue = redis.call('HGET', KEYS[1], 'id')
if not queue then
  return false
end
local now, places, answer, gone, taken, sets = tonumber(ARGV[1]), {}, {}, {}, {}, {}
for argument = 3, #ARGV, 3 do
  places[#places + 1] = ARGV[argument]
end
if #places == 0 then
  return answer
end
local states, ends = redis.call('HMGET', KEYS[6], unpack(places)), redis.call('ZMSCORE', KEYS[4], unpack(places))
for index, place in ipairs(places) do
  local id, nonce = ARGV[index * 3 - 1], ARGV[index * 3 + 1]
  local why, key = refusal(queue, now, id, place, nonce, states[index], ends[index])
  if why == 0 and taken[place] then
    why = -1
  elseif why == 0 then
    taken[place], sets[key] = true, KEYS[key]
    gone[#gone + 1] = place
  end
  answer[#answer + 1] = why
end
if #gone > 0 then
  drop(gone, sets[3] and {sets[3], sets[4]} or {sets[4]})
end
return answer
