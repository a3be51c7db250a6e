-- Throws a parked message away: a half message that was rolled back, a timer whose topic is gone.
--
-- KEYS[1]  sorted set   what waits; member = 8 bytes physical offset
-- KEYS[2]  stream       where the message is parked
-- ARGV[1]  the member of KEYS[1]
-- ARGV[2]  id of the parked entry
-- Returns 1, or 0 when the message does not wait any more.
if redis.call('ZREM', KEYS[1], ARGV[1]) == 0 then
  return 0
end
redis.call('XDEL', KEYS[2], ARGV[2])
return 1
