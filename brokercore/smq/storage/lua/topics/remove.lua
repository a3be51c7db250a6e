-- Removes a topic and its subscriptions, with all that they wait for.
--
-- KEYS[6]    sorted set  names of the account's topics
-- KEYS[7..]  keys of its lanes
-- ARGV[1]    its name
-- ARGV[2]    the stamp with which its subscriptions were read
-- ARGV[3..]  for each of its lanes: the lane, its subscription
-- Returns 1; 0 when there is no such topic, -1 when it has changed.
local stamp = redis.call('HGET', KEYS[1], 'stamp')
if not stamp then
  return 0
end
if stamp ~= ARGV[2] then
  return -1
end
for argument = 3, #ARGV, 2 do
  local first = 7 + (argument - 3) / 2 * 4
  close_lane(ARGV[argument], ARGV[argument + 1], {unpack(KEYS, first, first + 3)})
end
redis.call('UNLINK', unpack(KEYS, 1, 3))
redis.call('ZREM', KEYS[6], ARGV[1])
return 1
