-- Throws a parked message away: a half message that was rolled back, a timer whose topic is gone.
--
-- KEYS[1]  sorted set   what waits; member = 8 bytes physical offset
-- KEYS[2]  stream       where the message is parked
-- ARGV[1]  the member of KEYS[1]
-- ARGV[2]  id of the parked entry
-- ARGV[3]  "missing": only when the stream does not hold the entry; "any": whether it does or not
-- Returns 1, or 0 when the message does not wait any more, or is there though it was missed.
if ARGV[3] == 'missing' and #redis.call('XRANGE', KEYS[2], ARGV[2], ARGV[2]) > 0 then
  return 0
end
if redis.call('ZREM', KEYS[1], ARGV[1]) == 0 then
  return 0
end
redis.call('XDEL', KEYS[2], ARGV[2])
return 1
