--[[
  Fixed window under a key that names it, in envoyproxy/ratelimit's format: a decimal count, which other programs change
  with INCRBY.

  limit    { capacity (hits), time to keep the count (ms) }
  state    { count }
  Otherwise as fixed-window.lua.
]]
local function shared_window(limit, state, _, hits, charge)
  local before = state and state[1] or 0
  local after = math.min(math.max(before + hits, 0), MAX_COUNT)
  local accepted = hits < 0 or after <= limit[1]
  return accepted, { charge and after or before }, limit[2]
end

-- Hits only come back to their own window, since the key names it.
local function shared_window_refund(limit, state, now_ms, hits)
  local _, next_state, ttl_ms = shared_window(limit, state, now_ms, -hits, true)
  return true, next_state, ttl_ms
end

-- Outcomes of a counter that cannot be used: its value has another type, or is not an integer.
local WRONG_TYPE, NO_INTEGER = 4, 5

-- Adapts a counter that does not hold a state for the dispatcher. A peek renews its time to live.
local function shared_window_load(key, text, limit)
  local count = math.min(tonumber(text) or 0, MAX_COUNT)
  local counter = { state = { math.max(count, 0) }, ttl_ms = limit[2] }
  if text and not text:match('^-?%d+$') then
    counter.outcome = NO_INTEGER
  elseif not text and redis.call('TYPE', key).ok ~= 'none' then
    counter.outcome = WRONG_TYPE
  end
  counter.keep = function(state, ttl_ms)
    if not counter.outcome then
      redis.call('INCRBY', key, string.format('%.0f', state[1] - count))
      redis.call('EXPIRE', key, math.ceil(ttl_ms / 1000))
    end
  end
  return counter
end
