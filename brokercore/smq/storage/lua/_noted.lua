-- Around a script that changes what people have made. Its first argument, ARGV[1], is what the audit trail is told when
-- it returns 1, that is, when something has changed; empty: nothing is told. ARGV[2..] are the script's own arguments.
-- STREAM and FIELD, where it is told, are those of brokercore/policy/table.py, put in front of this.
local NOTE, ARGV = ARGV[1], {unpack(ARGV, 2)}

local function change()
  --[[ the script ]]
end

local result = change()
if result == 1 and NOTE ~= '' then
  redis.call('XADD', STREAM, 'MAXLEN', '~', '100000', '*', FIELD, NOTE)
end
return result
