-- Changes attributes of a queue; what is not named stays.
--
-- ARGV[1]    epoch s
-- ARGV[2..]  attributes: name, value, name, value …
-- Returns 1, or 0 when there is no such queue.
if redis.call('EXISTS', KEYS[1]) == 0 then
  return 0
end
redis.call('HSET', KEYS[1], 'modified', unpack(ARGV))
return 1
