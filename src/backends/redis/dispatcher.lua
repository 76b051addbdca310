--[[
  Runs the operations of a batch of requests, in order: reads every counter once, steps, writes every changed counter
  once. The algorithms' functions stand above this text; `steps` and `refunds` list them, and `windowed` has those whose
  states expire with a window that their first number names (script.ts puts it all together).

  KEYS     one a counter, each once
  ARGV[1]  little-endian doubles; how many limits there are, and per limit: algorithm (its place in `steps`), how many
           numbers of limit follow, the limit; then per request: how it spends (0 each, 1 all or nothing, 2 spare
           others), its number of operations (or 3, and how many requests it stands for, each of which has only the
           spend that follows), and per operation: key (its place in KEYS), limit (its place among the limits), hits, 1
           where it blocks + 2 * its kind, see KINDS; those after PEEK only where each spends for itself, and only where
           not, + ALONE where it is counted though its request is refused. REFUND and FORGET have two more numbers: the
           place in KEYS of when the counter was forgotten; the time of the charge, or how long that is kept (ms)
  ARGV[2]  the clock in ms since the epoch; empty: the server's own
  ARGV[3]  of a settlement: its number; ARGV[4] how long the last one is kept (ms), under the last of KEYS
  Returns  little-endian doubles: the clock, and nothing else where the settlement has been counted before; then per
  operation: outcome (1 accepted + 2 charged; or what a
           loader says), how many numbers of report follow, the report. Of a request that stands for several, where the
           state is short: STATE_BEFORE, how many numbers of state follow, the state before the first spend; else an
           outcome and a report for each spend

  A counter is a string: its state as little-endian doubles. A step with a loader has counters that are kept otherwise:
  the loader returns their state, how long a peek keeps them (ms), how they are kept, and an outcome where they cannot
  be counted on.
]]
local EACH, SPARE_OTHERS, REPEATED = 0, 2, 3
-- COUNT: positive hits are spent, negative hits are given back, 0 peeks
local KINDS = { COUNT = 0, PEEK = 1, CHARGE = 2, REFUND = 3, FORGET = 4 }

local ALONE = 16
local STATE_BEFORE = 8
local SHORT_STATE = 16 -- numbers: a longer one costs more to send, and to step again, than the replies

local CHUNK = 128 -- numbers at a time: Lua returns and takes only so many values in one call

local formats = setmetatable({}, {
  __index = function(known, count)
    known[count] = '<' .. string.rep('d', count)
    return known[count]
  end,
})

local function pack_numbers(numbers)
  local count = #numbers
  if count <= CHUNK then
    return struct.pack(formats[count], unpack(numbers))
  end
  local parts = {}
  for first = 1, count, CHUNK do
    local last = math.min(first + CHUNK - 1, count)
    parts[#parts + 1] = struct.pack(formats[last - first + 1], unpack(numbers, first, last))
  end
  return table.concat(parts)
end

local function unpack_numbers(packed)
  local count = math.floor(#packed / 8)
  if count <= CHUNK then
    local numbers = { struct.unpack(formats[count], packed) }
    numbers[count + 1] = nil -- where it ended
    return numbers
  end
  local numbers = {}
  for first = 1, count, CHUNK do
    local size = math.min(CHUNK, count - first + 1)
    local part = { struct.unpack(formats[size], packed, (first - 1) * 8 + 1) }
    for i = 1, size do
      numbers[first + i - 1] = part[i]
    end
  end
  return numbers
end

local function clock_ms()
  if ARGV[2] and ARGV[2] ~= '' then
    return tonumber(ARGV[2])
  end
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

local now_ms = clock_ms()
local settlement = ARGV[3] and tonumber(ARGV[3])
if settlement and settlement <= (tonumber(redis.call('GET', KEYS[#KEYS]) or '0') or 0) then
  return pack_numbers({ now_ms })
end
local input, at = unpack_numbers(ARGV[1]), 1
local output = { now_ms }
local stored = redis.call('MGET', unpack(KEYS))
local states, ttls_ms, last_steps = {}, {}, {} -- of all counters; of those that were stepped
for key = 1, #KEYS do
  local packed = stored[key]
  states[key] = packed and packed ~= '' and #packed % 8 == 0 and unpack_numbers(packed) or nil -- else not one of ours
end

local foreign = {} -- counters that are kept otherwise: what their loader said

local function load(key, limit)
  if not foreign[key] then
    foreign[key] = limit.load(KEYS[key], stored[key], limit.numbers)
    states[key] = foreign[key].state
  end
end

local function problem_of(key)
  return foreign[key] and foreign[key].outcome
end

local limits = {} -- each with its step and its numbers
for i = 1, input[1] do
  local first = at + 3
  local last = first + input[at + 2] - 1
  limits[i] = { step = steps[input[at + 1]], refund = refunds[input[at + 1]], load = loaders[input[at + 1]], numbers = { unpack(input, first, last) } }
  at = last
end
at = at + 1

local function read_hit()
  local key, limit = input[at], limits[input[at + 1]]
  local alone = input[at + 3] >= ALONE
  local mode = alone and input[at + 3] - ALONE or input[at + 3]
  local hit = { key = key, limit = limit, hits = input[at + 2], blocks = mode % 2 == 1, charge = mode < 2, alone = alone }
  at = at + 4
  if limit.load then
    load(key, limit)
  end
  return hit
end

local function run(hit, hits, charge)
  local accepted, state, ttl_ms, report = hit.limit.step(hit.limit.numbers, states[hit.key], now_ms, hits, charge)
  return { accepted = accepted, state = state, ttl_ms = ttl_ms, report = report or state }
end

local function keep(hit, result)
  states[hit.key], ttls_ms[hit.key], last_steps[hit.key] = result.state, result.ttl_ms, hit.limit.step
end

local function reply(hit, accepted, charged, report)
  output[#output + 1] = problem_of(hit.key) or (accepted and 1 or 0) + (charged and 2 or 0)
  output[#output + 1] = #report
  for i = 1, #report do
    output[#output + 1] = report[i]
  end
end

local function spend_all(hits)
  for i = 1, #hits do
    local result = run(hits[i], hits[i].hits, hits[i].charge)
    if hits[i].charge then
      keep(hits[i], result)
    end
    reply(hits[i], result.accepted, hits[i].charge, result.report)
  end
end

local forgotten = {} -- of counters to be forgotten: where that is kept, and for how long

-- The state before a charge that was forgotten since is not the state that it was charged to.
local function refund(key, limit, hits)
  local reset_at_ms = tonumber(stored[input[at + 4]] or nil)
  if reset_at_ms and input[at + 5] <= reset_at_ms then
    hits = 0
  end
  return limit.refund(limit.numbers, states[key], now_ms, hits, input[at + 5])
end

-- What few requests do: see KINDS. Returns what a step does, and whether the counter is to be written.
local function run_other(kind, key, limit, hits)
  if kind == KINDS.CHARGE then
    return true, limit.step(limit.numbers, states[key], now_ms, hits, 'regardless')
  elseif kind == KINDS.REFUND then
    return states[key] ~= nil, refund(key, limit, hits)
  elseif kind == KINDS.FORGET then
    forgotten[key] = { key = input[at + 4], ttl_ms = input[at + 5] }
    return false, limit.step(limit.numbers, nil, now_ms, 0, false)
  end
  return false, limit.step(limit.numbers, states[key], now_ms, hits, false)
end

-- Equal spends on one counter: the caller takes the same steps from the state before to know what became of each.
local function repeat_spend(count)
  local key, limit, hits = input[at], limits[input[at + 1]], input[at + 2]
  at = at + 4
  local size = #output
  local before = states[key]
  local length = before and #before or 0
  local step, numbers, state = limit.step, limit.numbers, before
  local accepted, ttl_ms, report
  if length > SHORT_STATE then
    for _ = 1, count do
      accepted, state, ttl_ms, report = step(numbers, state, now_ms, hits, true)
      report = report or state
      output[size + 1], output[size + 2] = accepted and 3 or 2, #report
      for i = 1, #report do
        output[size + 2 + i] = report[i]
      end
      size = size + 2 + #report
    end
  else
    output[size + 1], output[size + 2] = STATE_BEFORE, length
    for i = 1, length do
      output[size + 2 + i] = before[i]
    end
    for _ = 1, count do
      accepted, state, ttl_ms = step(numbers, state, now_ms, hits, true)
    end
  end
  states[key], ttls_ms[key], last_steps[key] = state, ttl_ms, step
end

-- What most requests do: every limit counts for itself. The same as `spend_all`, without a table for each hit.
local function spend_each(count)
  local size = #output
  for _ = 1, count do
    local key, limit, mode = input[at], limits[input[at + 1]], input[at + 3]
    if limit.load then
      load(key, limit)
    end
    local accepted, state, ttl_ms, report
    local is_written = true
    if mode < 2 then
      accepted, state, ttl_ms, report = limit.step(limit.numbers, states[key], now_ms, input[at + 2], true)
      at = at + 4
    else
      local kind = math.floor(mode / 2)
      is_written, accepted, state, ttl_ms, report = run_other(kind, key, limit, input[at + 2])
      at = at + (kind >= KINDS.REFUND and 6 or 4)
    end
    if is_written then
      states[key], ttls_ms[key], last_steps[key] = state, ttl_ms, limit.step
    end
    report = report or state
    output[size + 1] = limit.load and problem_of(key) or (accepted and 1 or 0) + (is_written and 2 or 0)
    output[size + 2] = #report
    size = size + 2
    for i = 1, #report do
      output[size + i] = report[i]
    end
    size = size + #report
  end
end

-- Which hits would be accepted if all were spent in this order, and whether one that blocks would not.
local function try_all(hits)
  local before, accepted, refused = {}, {}, false
  for i = 1, #hits do
    local hit = hits[i]
    before[i] = states[hit.key]
    local result = run(hit, hit.hits, hit.charge)
    states[hit.key] = result.state
    accepted[i] = result.accepted
    refused = refused or problem_of(hit.key) or (hit.blocks and not result.accepted)
  end
  for i = #hits, 1, -1 do
    states[hits[i].key] = before[i]
  end
  return accepted, refused
end

-- A request that is refused: at most the refusals themselves are counted, and what stands alone. What is not is decided
-- for all hits of the request on the counter so far: those would have to fit for the same request to pass.
local function spare(hits, accepted, may_charge)
  local asked = {}
  for i = 1, #hits do
    local hit = hits[i]
    asked[hit.key] = (asked[hit.key] or 0) + hit.hits
    local refusal = run(hit, hit.hits, hit.charge)
    local charged = hit.alone or (may_charge and hit.charge and not accepted[i] and not refusal.accepted)
    if charged then
      keep(hit, refusal)
    elseif foreign[hit.key] then
      ttls_ms[hit.key] = foreign[hit.key].ttl_ms
    end
    reply(hit, accepted[i], charged, (charged and refusal or run(hit, asked[hit.key], false)).report)
  end
end

local function spend_together(spend, count)
  local hits = {}
  for i = 1, count do
    hits[i] = read_hit()
  end
  local accepted, refused = try_all(hits)
  if refused then
    spare(hits, accepted, spend == SPARE_OTHERS)
  else
    spend_all(hits)
  end
end

while at <= #input do
  local spend, count = input[at], input[at + 1]
  at = at + 2
  if spend == EACH then
    spend_each(count)
  elseif spend == REPEATED then
    repeat_spend(count)
  else
    spend_together(spend, count)
  end
end

-- A window ends when it ends: a counter that is still in the same one keeps its time to live, which costs Redis half of
-- setting it.
local function is_in_same_window(key, packed)
  local before = stored[key]
  return windowed[last_steps[key]]
    and before
    and #before == #packed
    and string.sub(before, 1, 8) == string.sub(packed, 1, 8)
end

for key, ttl_ms in pairs(ttls_ms) do
  if foreign[key] then
    foreign[key].keep(states[key], ttl_ms)
  elseif ttl_ms > 0 then
    local packed = pack_numbers(states[key])
    if is_in_same_window(key, packed) then
      redis.call('SETRANGE', KEYS[key], 0, packed)
    else
      redis.call('SET', KEYS[key], packed, 'PX', ttl_ms)
    end
  elseif stored[key] then
    redis.call('DEL', KEYS[key])
  end
end
for key, reset in pairs(forgotten) do
  redis.call('DEL', KEYS[key])
  redis.call('SET', KEYS[reset.key], string.format('%.0f', now_ms), 'PX', reset.ttl_ms)
end
if settlement then
  redis.call('SET', KEYS[#KEYS], ARGV[3], 'PX', ARGV[4])
end
return pack_numbers(output)
