--[[
  Fixed window under a key that names it, as envoyproxy/ratelimit keeps it: the state is the count alone.
  limit    { capacity (hits), time to keep it (ms) }
  state    { count } or nil for a new counter
  Otherwise as fixed-window.lua.
]]
local function shared_window(limit, state, _, hits, charge)
  local before = state and state[1] or 0
  local after = math.min(math.max(before + hits, 0), MAX_COUNT)
  local accepted = hits < 0 or after <= limit[1]
  return accepted, { charge and after or before }, limit[2]
end

-- The key names the window, so that hits can only come back to their own.
local function shared_window_refund(limit, state, now_ms, hits)
  local _, next_state, ttl_ms = shared_window(limit, state, now_ms, -hits, true)
  return true, next_state, ttl_ms
end
