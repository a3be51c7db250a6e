-- What the scripts of a queue share. All of them get the same keys:
--
-- KEYS[1]  hash        the queue: its attributes, id, created, modified, number (of the last message), received (how
--          often it gave a message out), bytes (of all it holds)
-- KEYS[2]  sorted set  messages that can be received; score 0, so they stand in the order of their places
-- KEYS[3]  sorted set  messages whose delay has not ended; score = epoch ms at which it does
-- KEYS[4]  sorted set  messages that were received; score = epoch ms at which they are visible again
-- KEYS[5]  hash        place -> message as it is kept: epoch ms of its enqueuing in the first 8 bytes
-- KEYS[6]  hash        place -> first received (epoch ms), times received, nonce of the valid receipt handle;
--          there is one for what was received, and for what was sent with a delay
-- KEYS[7]  sorted set  all messages; score = epoch ms of their enqueuing
-- KEYS[8]  hash        the account: messages and bytes that all its queues hold
-- KEYS[9]  sorted set  names of the account's queues; score 0
--
-- And `smq::held`, a hash: messages and bytes that the queues and notifications of all accounts hold.
--
-- A place is 1 byte priority and 6 bytes number: what stands first is delivered first. Times come in ARGV.
local STATE = '>I2I4I4c8'
local AT_ONCE = 100
-- So often at most within one script: others wait meanwhile, and the service sweeps by itself.
local ROUNDS = 20
local ALL = 'smq::held'
-- Bytes of Redis that a message takes beside its own.
local PLACES = 400

local function wide(high, low)
  return high * 4294967296 + low
end

local function text(number)
  return string.format('%.0f', number)
end

-- Counts what an account, whose hash this is, holds more than before; less where it is negative.
local function hold(account, bytes, messages)
  for _, key in ipairs({account, ALL}) do
    redis.call('HINCRBY', key, 'bytes', bytes)
    redis.call('HINCRBY', key, 'messages', messages)
  end
end

-- How many bytes of Redis all accounts may take more, about: a message takes its bytes and its places in the sets. `most`
-- 0 is any number.
local function room_of_all(most)
  if most == 0 then
    return math.huge
  end
  local all = redis.call('HMGET', ALL, 'bytes', 'messages')
  return most - tonumber(all[1] or 0) - tonumber(all[2] or 0) * PLACES
end

-- Drops messages, which stand in these sorted sets.
local function drop(places, sets)
  local bytes = 0
  for _, place in ipairs(places) do
    bytes = bytes + redis.call('HSTRLEN', KEYS[5], place)
  end
  local known = redis.call('ZREM', KEYS[7], unpack(places))
  for _, key in ipairs(sets) do
    redis.call('ZREM', key, unpack(places))
  end
  redis.call('HDEL', KEYS[5], unpack(places))
  redis.call('HDEL', KEYS[6], unpack(places))
  redis.call('HINCRBY', KEYS[1], 'bytes', -bytes)
  hold(KEYS[8], -bytes, -known)
end

-- Drops messages that have been kept for as long as the queue keeps any.
local function expire(now, retention, rounds)
  local before = text(now - retention * 1000)
  for _ = 1, rounds do
    local gone = redis.call('ZRANGEBYSCORE', KEYS[7], '-inf', before, 'LIMIT', 0, AT_ONCE)
    if #gone > 0 then
      drop(gone, {KEYS[2], KEYS[3], KEYS[4]})
    end
    if #gone < AT_ONCE then
      break
    end
  end
end

-- Lets messages be received whose delay, or whose time of being hidden, has ended. Returns when the next one becomes
-- visible by itself, epoch ms; 0 if none will.
local function promote(now)
  local next_due = 0
  for key = 3, 4 do
    local first = redis.call('ZRANGE', KEYS[key], 0, 0, 'WITHSCORES')
    if first[2] and tonumber(first[2]) <= now then
      local due, added = redis.call('ZRANGEBYSCORE', KEYS[key], '-inf', text(now), 'LIMIT', 0, AT_ONCE), {}
      for _, place in ipairs(due) do
        added[#added + 1] = 0
        added[#added + 1] = place
      end
      redis.call('ZADD', KEYS[2], unpack(added))
      redis.call('ZREM', KEYS[key], unpack(due))
      first = redis.call('ZRANGE', KEYS[key], 0, 0, 'WITHSCORES')
    end
    if first[2] and (next_due == 0 or tonumber(first[2]) < next_due) then
      next_due = tonumber(first[2])
    end
  end
  return next_due
end

local function enqueued(kept)
  return wide(struct.unpack('>I4I4', kept))
end

-- First received (epoch ms), times received, nonce.
local function read_state(packed)
  if not packed then
    return 0, 0, ''
  end
  local high, low, count, nonce = struct.unpack(STATE, packed)
  return wide(high, low), count, nonce
end

local function state_of(place)
  return read_state(redis.call('HGET', KEYS[6], place))
end

local function packed_state(first, count, nonce)
  return struct.pack(STATE, math.floor(first / 4294967296), first % 4294967296, count, nonce)
end

-- Adds messages to the queue of `keys`, each {as it is kept, priority, delay in s}. Returns the number of the first of
-- them, how many are visible at once, and when the first of the others becomes visible (epoch ms; 0: there is none).
local function put(keys, now, messages, nonce)
  local first = redis.call('HINCRBY', keys[1], 'number', #messages) - #messages + 1
  local kept, ages, ready, delayed, states, due = {}, {}, {}, {}, {}, 0
  for index, message in ipairs(messages) do
    local number = first + index - 1
    local place = struct.pack('>BI2I4', message[2], math.floor(number / 4294967296), number % 4294967296)
    kept[#kept + 1], kept[#kept + 2] = place, message[1]
    ages[#ages + 1], ages[#ages + 2] = text(now), place
    if message[3] == 0 then
      ready[#ready + 1], ready[#ready + 2] = 0, place
    else
      local ends = now + message[3] * 1000
      delayed[#delayed + 1], delayed[#delayed + 2] = text(ends), place
      states[#states + 1], states[#states + 2] = place, packed_state(0, 0, nonce)
      if due == 0 or ends < due then
        due = ends
      end
    end
  end
  redis.call('HSET', keys[5], unpack(kept))
  redis.call('ZADD', keys[7], unpack(ages))
  if #ready > 0 then
    redis.call('ZADD', keys[2], unpack(ready))
  end
  if #delayed > 0 then
    redis.call('ZADD', keys[3], unpack(delayed))
    redis.call('HSET', keys[6], unpack(states))
  end
  return first, #ready / 2, due
end

-- Why a handle does not hold: -1 the message is gone or the handle has ended, -2 it is of another queue; 0 when it holds.
-- Second, the number of the key of the set that the message stands in. `queue` is the id of this queue, `packed` what
-- KEYS[6] has of the message, and `ends` what KEYS[4] has.
local function refusal(queue, now, id, place, nonce, packed, ends)
  if id ~= queue then
    return -2
  end
  local _, _, valid = read_state(packed)
  if valid == nonce then
    local key = ends and 4 or 3
    ends = ends or redis.call('ZSCORE', KEYS[3], place)
    if ends and tonumber(ends) > now then
      return 0, key
    end
  end
  return -1
end

