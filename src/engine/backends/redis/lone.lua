--[[
  Spends hits on one counter, as the dispatcher does for a batch, whose text would take Redis longer than the step.
  script.ts puts counters.lua and one algorithm before this text.

  KEYS[1]  the counter
  KEYS[2]  only if the hits are usage: its hash
  ARGV[1]  little-endian doubles: the hits, the limit
  Returns  as the dispatcher for one spend: the clock, the outcome, the length of the report, the report
]]
local ACCEPTED, CHARGED = 1, 2

local key = KEYS[1]
local now_ms = server_ms()
local numbers = unpack_numbers(ARGV[1])
local hits = table.remove(numbers, 1)
local limit = { algorithm = algorithm, numbers = numbers }
local stored = call('MGET', key)[1] -- GET fails on a key of another type
local before = read_state(key, stored, limit, now_ms, true)
local accepted, state, ttl_ms, report = algorithm.step(numbers, before, now_ms, hits, true)
local packed = pack_numbers(state)
write_state(key, stored, before, state, packed, limit, now_ms, ttl_ms)
if KEYS[2] and accepted then
  add_usage(KEYS[2], now_ms, key, hits)
end
local packed_report = report and pack_numbers(report) or packed
return pack('<ddd', now_ms, accepted and ACCEPTED + CHARGED or CHARGED, #packed_report / 8) .. packed_report
