--[[
  What every script does with counters: a counter is a string, its state as little-endian doubles; that of a window on
  the server's clock is its count in decimal, whose time to live is the window. script.ts puts this text before the
  others.
]]
-- The caller decides on a clock of its own, on which nothing expires: windows are stored as any other state.
local has_given_clock = (ARGV[2] or '') ~= ''

local CHUNK = 128 -- numbers at a time: Lua limits the arguments and results of a call

local call = redis.call
local pack, unpack_packed = struct.pack, struct.unpack

local formats = {}

local function format_of(count)
  local format = formats[count]
  if not format then
    format = '<' .. string.rep('d', count)
    formats[count] = format
  end
  return format
end

-- Packs the numbers from place `numbers.first`, or without the first `numbers.dropped`, or all of them; or those of all lists in `numbers.lists`.
local function pack_numbers(numbers)
  local from, to = numbers.dropped and numbers.dropped + 1 or numbers.first or 1, #numbers
  if numbers.lists then
    local packed = {}
    for i = 1, #numbers.lists do
      packed[i] = pack_numbers(numbers.lists[i])
    end
    return table.concat(packed)
  elseif to == from + 1 then
    return pack('<dd', numbers[from], numbers[to])
  elseif to - from < CHUNK then
    return pack(format_of(to - from + 1), unpack(numbers, from, to))
  end
  local parts = {}
  for first = from, to, CHUNK do
    local last = math.min(first + CHUNK - 1, to)
    parts[#parts + 1] = pack(format_of(last - first + 1), unpack(numbers, first, last))
  end
  return table.concat(parts)
end

local function unpack_numbers(packed)
  local count = math.floor(#packed / 8)
  if count == 2 then
    local first, second = unpack_packed('<dd', packed)
    return { first, second }
  elseif count <= CHUNK then
    local numbers = { unpack_packed(format_of(count), packed) }
    numbers[count + 1] = nil -- `struct.unpack` also returns the end position
    return numbers
  end
  local numbers = {}
  for first = 1, count, CHUNK do
    local size = math.min(CHUNK, count - first + 1)
    local part = { unpack_packed(format_of(size), packed, (first - 1) * 8 + 1) }
    for i = 1, size do
      numbers[first + i - 1] = part[i]
    end
  end
  return numbers
end

local function server_ms()
  local time = call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

local CHECKED_NUMBERS = 16 -- of a state: another program's value shows at its beginning

-- The state in a counter; nil if there is none, or if another program wrote it: a number is no integer below 2^53.
-- Without `length`, any is accepted. Twin of `unpackState` in packed-state.ts.
local function unpack_state(packed, length)
  if not packed or packed == '' or (length and #packed ~= 8 * length) or #packed % 8 ~= 0 then
    return nil
  end
  local state = unpack_numbers(packed)
  for i = 1, math.min(#state, CHECKED_NUMBERS) do
    local number = state[i]
    if number % 1 ~= 0 or number > MAX_COUNT or number < -MAX_COUNT then
      return nil
    end
  end
  return state
end

local MAX_USAGE_ENTRIES = 500000 -- as in usage.ts

-- The hits that a charged step adds to the usage of its counter, less those that the counter has given back. Twin of
-- `usedHits` in usage.ts.
local function used_hits(limit, hits, accepted, report, given)
  if limit.algorithm.reserves then
    return report[12] - given
  end
  return (accepted and math.max(hits, 0) or 0) - given
end

-- The same for hits that are refunded.
local function refunded_hits(limit, hits)
  local is_reservation = limit.algorithm.reserves and limit.numbers[6] ~= 1
  return is_reservation and 0 or -hits
end

-- Adds hits to the usage of a counter in this hour. New counters beyond the maximum are summed up. Errors, of values that
-- another program wrote and of sums beyond 64 bits, leave the usage as it is: they must not change an answer.
local function add_usage(usage_key, now_ms, key, hits)
  local hour = string.format('%d|', math.floor(now_ms / 3600000))
  if redis.pcall('HINCRBY', usage_key, hour .. key, hits) == hits and call('HLEN', usage_key) > MAX_USAGE_ENTRIES then
    call('HDEL', usage_key, hour .. key)
    redis.pcall('HINCRBY', usage_key, hour, hits)
  end
end

local MAX_LOG_BYTES = 33554432

-- Appends hits to a log of usage: little-endian doubles (the hour, the number of counters, and for each its hits and
-- the length of its name), then their names. That costs Redis a fraction of adding them one by one, which a full log
-- requires. used: hits by the counter's place in KEYS
local function log_usage(usage_key, log_key, now_ms, used)
  local numbers, names = { math.floor(now_ms / 3600000), 0 }, {}
  for key, hits in pairs(used) do
    if hits ~= 0 then
      names[#names + 1] = KEYS[key]
      numbers[#numbers + 1] = hits
      numbers[#numbers + 1] = #KEYS[key]
    end
  end
  if #names == 0 then
    return
  end
  numbers[2] = #names
  local entry = pack_numbers(numbers) .. table.concat(names)
  local size = redis.pcall('HINCRBY', usage_key, '#log', #entry)
  if type(size) == 'number' and size <= MAX_LOG_BYTES and type(redis.pcall('RPUSH', log_key, entry)) == 'number' then
    return
  end
  for at = 1, #names do
    add_usage(usage_key, now_ms, names[at], numbers[1 + 2 * at])
  end
end

-- The state of a window from its count. One that has lost its expiry gets that of the present window.
local function read_count(key, text, limit, now_ms)
  local count = #text <= 20 and text:match('^%-?%d+$') and tonumber(text)
  if not count then
    return nil -- another program's value
  end
  local left_ms = call('PTTL', key)
  if left_ms <= 0 then
    local _, _, ttl_ms = limit.algorithm.step(limit.numbers, nil, now_ms, 1, true)
    local end_ms = now_ms + ttl_ms
    if left_ms == -1 then
      call('PEXPIREAT', key, string.format('%.0f', end_ms))
    elseif server_ms() < end_ms then
      return nil -- it has expired before now_ms: Redis 6 and 7.0 find it until the script ends
    end
    left_ms = ttl_ms
  end
  return { limit.algorithm.start_before(limit.numbers, now_ms + left_ms), math.min(math.max(count, 0), MAX_COUNT) }
end

-- The state in a counter under a limit; nil if there is none.
local function read_state(key, stored, limit, now_ms)
  if stored and limit.algorithm.counts_window then
    return read_count(key, stored, limit, now_ms)
  end
  return unpack_state(stored, limit.algorithm.state_length)
end

-- Stores the count of a window. A counter without hits is kept until its window ends: an instance that has seen it may
-- be about to add some by INCRBY, which would create it without an expiry.
local function write_count(key, before, state, now_ms, ttl_ms)
  local text = string.format('%.0f', state[2])
  if before and (before[1] == state[1] or state[2] == 0) then
    call('SET', key, text, 'KEEPTTL')
  elseif ttl_ms > 0 then
    call('SET', key, text, 'PXAT', string.format('%.0f', now_ms + ttl_ms))
  else
    return false
  end
  return text
end

-- Stores a state, whose packed form is known; deletes the counter if it is equivalent to a new one. Returns what is
-- stored.
local function write_state(key, stored, before, state, packed, limit, now_ms, ttl_ms)
  if limit.algorithm.counts_window then
    return write_count(key, before, state, now_ms, ttl_ms)
  elseif ttl_ms > 0 then
    call('SET', key, packed, 'PX', ttl_ms)
    return packed
  elseif stored then
    call('DEL', key)
  end
  return false
end
