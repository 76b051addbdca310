--[[
  Fixed window. Twin of fixed-window.ts: change both or neither.
  limit    { requests per unit, window (ms) }
  state    { window start (ms since the epoch), count } or nil for a new counter
  now_ms   may run backwards; the later window stays in force
  hits     0 looks, below 0 gives back
  Returns  accepted, state, ttl (ms)
]]
local function fixed_window(limit, state, now_ms, hits)
  local requests_per_unit, window_ms = limit[1], limit[2]
  local start_ms, count = now_ms - now_ms % window_ms, 0
  if state and state[1] >= start_ms then
    start_ms, count = state[1], state[2]
  end
  count = math.min(math.max(count + hits, 0), MAX_COUNT)
  local accepted = hits < 0 or count <= requests_per_unit
  return accepted, { start_ms, count }, start_ms + window_ms - now_ms
end
