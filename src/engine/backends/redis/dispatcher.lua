--[[
  Runs the operations of a batch of requests: reads every counter once, steps, writes every changed counter. script.ts
  assembles the script: counters.lua, `algorithms`, by their places, and `decide_requests`, for requests that need more
  than runs, come before this text.

  Nearly all operations are independent spends. They are packed in runs: spends of the same number of hits under one
  limit. All other operations follow as requests, see requests.lua. Runs are counted first: no earlier operation of the
  batch uses a counter of a run.

  KEYS     the counters, each once
  ARGV[1]  little-endian doubles; the number of limits, and per limit: algorithm (its place in `algorithms`), the
           length of the limit, the limit; the number of runs, and per run: limit (its
           place among the limits; negative if the hits are usage), hits, the number of counters with one spend and of those with several, the places in KEYS of the former, the place
           in KEYS and the number of spends of each of the latter; the number of shared limits with
           spends, and per shared limit: its place in KEYS, the number of children, their ids, the number of spends, and
           per spend: limit (likewise), hits, the places of the children on its path (from 2, as many as levels, 0 for
           none), the place in KEYS of the name of its usage; then the requests. The place of a limit is negative
           in a run whose hits are usage
  ARGV[2]  the clock in ms since the epoch; empty: the server's own
  ARGV[3]  only in a settlement: its number; ARGV[4]: how long the number of the last settlement is kept (ms), under the
           last of KEYS but the usage
  ARGV[5]  only if some hits are usage: its hash and its log are the last of KEYS
  Returns  little-endian doubles: the clock, and nothing else if the settlement was counted before; then per operation,
           in the packed order: outcome (1 accepted + 2 charged; or the loader's), the length of the report, the report.
           For a counter with several spends and a short state: STATE_BEFORE, the length of the state, the state before
           the first spend; with a long state, an outcome and a report for each spend

  Counters of an algorithm with a loader have another format, see requests.lua.

  The clock stands still in a script, so an algorithm with long states reads one once: its first step on a counter
  prepares the state, and all of them change it in place. A step without a charge changes no outcome of later ones.
]]
local ACCEPTED, CHARGED, STATE_BEFORE = 1, 2, 8
local SHORT_STATE = 16 -- numbers: sending and stepping a longer one costs more than the replies

local keys = KEYS

-- A caller's clock may be behind the server's, on which keys expire.
local MAX_BEHIND_MS = 10000

local grace_ms = has_given_clock and MAX_BEHIND_MS or 0

local function clock_ms()
  if has_given_clock then
    return tonumber(ARGV[2])
  end
  return server_ms()
end

local now_ms = clock_ms()
local settlement = ARGV[3] and tonumber(ARGV[3])
local counter_keys = ARGV[5] and #keys - 2 or #keys -- with that of the settlement
local settlement_key = keys[counter_keys]
if settlement and settlement <= (tonumber(call('MGET', settlement_key)[1] or '0') or 0) then
  return pack_numbers({ now_ms })
end
local input, at = unpack_numbers(ARGV[1]), 1
local stored = call('MGET', unpack(keys, 1, counter_keys))

local limits = {}
for i = 1, input[1] do
  local first = at + 3
  local last = first + input[at + 2] - 1
  limits[i] = { algorithm = algorithms[input[at + 1]], numbers = { unpack(input, first, last) } }
  at = last
end
at = at + 1

local function state_of(key, limit, is_spent)
  return read_state(keys[key], stored[key], limit, now_ms, is_spent)
end

-- Stores the new state. Returns it packed.
local function keep(key, before, state, ttl_ms, limit)
  local packed = pack_numbers(state)
  local kept_ms = ttl_ms > 0 and ttl_ms + grace_ms or 0
  stored[key] = write_state(keys[key], stored[key], before, state, packed, limit, now_ms, kept_ms)
  return packed
end

local reply, parts = { pack('<d', now_ms) }, 1
local accepted_heads, refused_heads = {}, {} -- by the length of the report

local function add_reply(accepted, count, packed_report)
  local heads = accepted and accepted_heads or refused_heads
  local head = heads[count]
  if not head then
    head = pack('<dd', accepted and ACCEPTED + CHARGED or CHARGED, count)
    heads[count] = head
  end
  reply[parts + 1], reply[parts + 2] = head, packed_report
  parts = parts + 2
end

local used = {} -- usage, by counter

local function meter(key, hits)
  used[key] = (used[key] or 0) + hits
end

local function spend_once(key, limit, hits, is_metered)
  local algorithm = limit.algorithm
  local before = state_of(key, limit, true)
  local accepted, state, ttl_ms, report = algorithm.step(limit.numbers, before, now_ms, hits, true)
  local packed = keep(key, before, state, ttl_ms, limit)
  if is_metered then
    meter(key, used_hits(limit, hits, accepted, report, 0))
  end
  if report then
    add_reply(accepted, #report, pack_numbers(report))
  else
    add_reply(accepted, #state, packed)
  end
end

-- The caller repeats the steps from the state before to learn the outcome of each.
local function spend_repeatedly(key, limit, hits, count, is_metered)
  local algorithm = limit.algorithm
  local before = state_of(key, limit, true)
  local length = before and #before or 0
  local is_long = length > SHORT_STATE
  if not is_long then
    reply[parts + 1], reply[parts + 2] = pack('<dd', STATE_BEFORE, length), before and pack_numbers(before) or ''
    parts = parts + 2
  end
  local state, accepted, ttl_ms, report = before
  for _ = 1, count do
    accepted, state, ttl_ms, report = algorithm.step(limit.numbers, state, now_ms, hits, true)
    if is_metered then
      meter(key, used_hits(limit, hits, accepted, report, 0))
    end
    if is_long then
      report = report or state
      add_reply(accepted, #report, pack_numbers(report))
    end
  end
  keep(key, before, state, ttl_ms, limit)
end

local runs = input[at]
at = at + 1
for _ = 1, runs do
  local is_metered = input[at] < 0
  local limit, hits, once, repeated = limits[math.abs(input[at])], input[at + 1], input[at + 2], input[at + 3]
  at = at + 4
  for i = at, at + once - 1 do
    spend_once(input[i], limit, hits, is_metered)
  end
  at = at + once
  for i = at, at + 2 * repeated - 1, 2 do
    spend_repeatedly(input[i], limit, hits, input[i + 1], is_metered)
  end
  at = at + 2 * repeated
end

-- Nodes are read and written once for all spends.
local function spend_shared()
  local key, children = keys[input[at]], input[at + 1]
  local names, ttl_ms = { 'p' }, 0
  for i = 2, children + 1 do
    names[i] = string.format('%.0f', input[at + i])
  end
  local nodes, last = read_nodes(key, names), at + 2 + children
  at = last + 1
  for _ = 1, input[last] do
    local place, hits = input[at], input[at + 1]
    local limit = limits[math.abs(place)]
    local path = { nodes[1], nodes[input[at + 2]], nodes[input[at + 3]], nodes[input[at + 4]] }
    local accepted, _, next_ttl_ms, report = limit.algorithm.step(limit.numbers, path, now_ms, hits, true)
    ttl_ms = next_ttl_ms
    if place < 0 then
      meter(input[at + 5], used_hits(limit, hits, accepted, report, 0))
    end
    add_reply(accepted, #report, pack_numbers(report))
    at = at + 6
  end
  write_nodes(key, names, nodes, now_ms, ttl_ms + grace_ms)
end

local trees = input[at]
at = at + 1
for _ = 1, trees do
  spend_shared()
end

if at <= #input then
  local batch = { input = input, at = at, limits = limits, stored = stored, now_ms = now_ms, state_of = state_of, keep = keep, pack = pack_numbers, unpack = unpack_numbers, unpack_state = unpack_state, grace_ms = grace_ms, meter = meter }
  reply[parts + 1] = pack_numbers(decide_requests(batch))
end
if next(used) then
  log_usage(keys[#keys - 1], keys[#keys], now_ms, used)
end
if settlement then
  call('SET', settlement_key, ARGV[3], 'PX', ARGV[4])
end
return table.concat(reply)
