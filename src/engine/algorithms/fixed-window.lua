--[[
  Fixed window. Twin of fixed-window.ts: change both or neither.
  limit    { capacity (hits), window (ms), alignment: 0 epoch, 1 first hit, 2 calendar, then for the epoch the time by
             which windows begin earlier (ms; may be absent), for a calendar its four boundaries around the caller's
             clock (ms since the epoch) }
  state    { window start (ms since the epoch), count } or nil for a new counter
  now_ms   may run backwards; the later window remains current
  hits     0 peeks, a negative number gives hits back
  charge   false: returns the outcome, but leaves the counter unchanged
           'regardless': counts hits that have passed already
  Returns  accepted, state, ttl (ms)
]]
local fixed_window, fixed_window_refund, fixed_window_start_before
do
  -- Beyond the boundaries that were sent, windows have the length of the nearest one.
  local function calendar_window(limit, at_ms)
    if at_ms < limit[4] then
      local length_ms = limit[5] - limit[4]
      local start_ms = limit[4] - math.ceil((limit[4] - at_ms) / length_ms) * length_ms
      return start_ms, start_ms + length_ms
    end
    for i = 4, 6 do
      if at_ms < limit[i + 1] then
        return limit[i], limit[i + 1]
      end
    end
    local length_ms = limit[7] - limit[6]
    local start_ms = limit[7] + math.floor((at_ms - limit[7]) / length_ms) * length_ms
    return start_ms, start_ms + length_ms
  end

  local function window_at(limit, known_start_ms, at_ms)
    local window_ms, alignment = limit[2], limit[3]
    if alignment == 2 then
      return calendar_window(limit, at_ms)
    end
    local start_ms = at_ms - (at_ms + (limit[4] or 0)) % window_ms
    if alignment == 1 then
      start_ms = known_start_ms > 0 and at_ms < known_start_ms + window_ms and known_start_ms or at_ms
    end
    return start_ms, start_ms + window_ms
  end

  fixed_window = function(limit, state, now_ms, hits, charge)
    local known = state and state[2] > 0 and state[1] or 0 -- a count of 0 is equivalent to no counter
    local start_ms, end_ms = window_at(limit, known, math.max(now_ms, known))
    start_ms = math.max(start_ms, known)
    local before = state and known == start_ms and state[2] or 0
    local after = math.min(math.max(before + hits, 0), MAX_COUNT)
    local accepted = hits < 0 or after <= limit[1]
    local count = charge and after or before
    return accepted, { start_ms, count }, count == 0 and 0 or end_ms - now_ms
  end

  -- The start of the window that ends at a time.
  fixed_window_start_before = function(limit, end_ms)
    if limit[3] == 1 then
      return end_ms - limit[2]
    end
    return (window_at(limit, 0, end_ms - 1))
  end

  -- Only hits of the current window come back.
  fixed_window_refund = function(limit, state, now_ms, hits, charged_at_ms)
    local _, current = fixed_window(limit, state, now_ms, 0, false)
    local _, next_state, ttl_ms = fixed_window(limit, state, now_ms, charged_at_ms >= current[1] and -hits or 0, true)
    return true, next_state, ttl_ms
  end
end
