-- Makes a topic.
--
-- KEYS[6]    sorted set  names of the account's topics; score 0
-- ARGV[1]    its name
-- ARGV[2]    its id, which no other topic ever had
-- ARGV[3]    epoch s
-- ARGV[4]    topics that the account may have; 0 for any number
-- ARGV[5..]  attributes: name, value, name, value …
-- Returns 1; 0 when it is there with the same attributes, -1 with others, -2 when the account has as many as it may.
if redis.call('EXISTS', KEYS[1]) == 1 then
  for number = 5, #ARGV, 2 do
    if redis.call('HGET', KEYS[1], ARGV[number]) ~= ARGV[number + 1] then
      return -1
    end
  end
  return 0
end
if ARGV[4] ~= '0' and redis.call('ZCARD', KEYS[6]) >= tonumber(ARGV[4]) then
  return -2
end
redis.call('HSET', KEYS[1], 'id', ARGV[2], 'stamp', ARGV[2], 'created', ARGV[3], 'modified', ARGV[3], unpack(ARGV, 5))
redis.call('ZADD', KEYS[6], 0, ARGV[1])
return 1
