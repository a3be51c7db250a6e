-- Moves a parked message (a timer that is due, a half message that is committed) to its queue, once.
--
-- KEYS[1]    sorted set   what waits: timers or half messages; member = 8 bytes physical offset
-- KEYS[2]    stream       where the message is parked
-- KEYS[3]    stream       the queue it goes to
-- KEYS[4..]  string       key index of the target topic, one for each of ARGV[5..] (may be none)
-- ARGV[1]    the member of KEYS[1]
-- ARGV[2]    id of the parked entry
-- ARGV[3]    id of the new entry
-- ARGV[4]    the stored frame
-- ARGV[5..]  records of the index
-- Returns 1, or 0 when the message does not wait any more.
-- What may fail for want of memory comes first: a script is not rolled back.
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then
  return 0
end
for number = 4, #KEYS do
  redis.call('APPEND', KEYS[number], ARGV[number + 1])
end
redis.call('XADD', KEYS[3], ARGV[3], 'm', ARGV[4])
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('XDEL', KEYS[2], ARGV[2])
return 1
