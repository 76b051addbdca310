--[[
  Applies the hits of a batch of requests, in order: reads every counter once, steps, writes every counter once.
  The algorithms' functions stand above this text, and `steps` lists them (script.ts puts it all together).

  KEYS     one a counter, each once
  ARGV[1]  little-endian doubles; per hit: key (its place in KEYS), algorithm (its place in `steps`), hits, how many
           numbers of limit follow, the limit
  ARGV[2]  the clock in ms since the epoch; absent: the server's own
  Returns  little-endian doubles: the clock, then per hit: accepted (1 or 0), how many numbers of state follow, the state

  A counter is a string: its state as little-endian doubles.
]]
local function pack_numbers(numbers)
  return struct.pack('<' .. string.rep('d', #numbers), unpack(numbers))
end

local function unpack_numbers(packed)
  local numbers = { struct.unpack('<' .. string.rep('d', #packed / 8), packed) }
  numbers[#numbers] = nil -- the position behind the last one
  return numbers
end

local function clock_ms()
  if ARGV[2] then
    return tonumber(ARGV[2])
  end
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

local now_ms = clock_ms()
local input = unpack_numbers(ARGV[1])
local stored = redis.call('MGET', unpack(KEYS))
local states, ttls_ms = {}, {}
for key = 1, #KEYS do
  local packed = stored[key]
  states[key] = packed and packed ~= '' and #packed % 8 == 0 and unpack_numbers(packed) or nil -- else not one of ours
end

local output, at = { now_ms }, 1
while at <= #input do
  local key, algorithm, hits, size = input[at], input[at + 1], input[at + 2], input[at + 3]
  local limit = { unpack(input, at + 4, at + 3 + size) }
  local accepted, state, ttl_ms = steps[algorithm](limit, states[key], now_ms, hits)
  states[key], ttls_ms[key] = state, ttl_ms
  output[#output + 1] = accepted and 1 or 0
  output[#output + 1] = #state
  for i = 1, #state do
    output[#output + 1] = state[i]
  end
  at = at + 4 + size
end

for key = 1, #KEYS do
  redis.call('SET', KEYS[key], pack_numbers(states[key]), 'PX', ttls_ms[key])
end
return pack_numbers(output)
