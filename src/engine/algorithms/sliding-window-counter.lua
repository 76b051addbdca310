--[[
  Sliding window counter. Twin of sliding-window-counter.ts: change both or neither.
  limit    { capacity (hits), window (ms), rounding: 0 down, 1 up, the time by which windows begin before the
             epoch's (ms; may be absent) }
  state    { window start (ms since the epoch), count, previous window's count } or nil for a new counter
  now_ms   may run backwards; the later window remains current, at its beginning
  hits     0 peeks, a negative number gives hits back
  charge   false: returns the outcome, but leaves the counter unchanged
           'regardless': counts hits that have passed already
  Returns  accepted, state, ttl (ms)
]]
local sliding_window_counter, sliding_window_counter_refund
do
  local function roll(limit, state, now_ms)
    local window_ms = limit[2]
    local start_ms = now_ms - (now_ms + (limit[4] or 0)) % window_ms
    if not state then
      return start_ms, 0, 0
    end
    if state[1] >= start_ms then
      return state[1], state[2], state[3]
    end
    return start_ms, 0, state[1] + window_ms == start_ms and state[2] or 0
  end

  local function covered(limit, previous, elapsed_ms)
    local window_ms, round_up = limit[2], limit[3] == 1
    local weighted = previous * math.max(window_ms - elapsed_ms, 0)
    local rest = weighted % window_ms
    local whole = (weighted - rest) / window_ms
    return round_up and rest > 0 and whole + 1 or whole
  end

  sliding_window_counter = function(limit, state, now_ms, hits, charge)
    local capacity, window_ms = limit[1], limit[2]
    local start_ms, count, previous = roll(limit, state, now_ms)
    local used = count + covered(limit, previous, math.max(now_ms - start_ms, 0))
    local accepted = hits < 0 or used + (hits == 0 and 1 or hits) <= capacity
    local counts = charge == 'regardless' or (accepted and charge)
    local counted = counts and math.min(count + hits, math.floor(MAX_COUNT / window_ms)) or count
    count, previous = math.max(counted, 0), math.max(previous + math.min(counted, 0), 0)
    local end_ms = start_ms + (count > 0 and 2 * window_ms or previous > 0 and window_ms or 0)
    return accepted, { start_ms, count, previous }, end_ms - now_ms
  end

  -- Returns hits to the window in which they were counted.
  sliding_window_counter_refund = function(limit, state, now_ms, hits, charged_at_ms)
    local window_ms = limit[2]
    local start_ms, count, previous = roll(limit, state, now_ms)
    if charged_at_ms >= start_ms then
      count = math.max(count - hits, 0)
    elseif charged_at_ms >= start_ms - window_ms then
      previous = math.max(previous - hits, 0)
    end
    local end_ms = start_ms + (count > 0 and 2 * window_ms or previous > 0 and window_ms or 0)
    return true, { start_ms, count, previous }, end_ms - now_ms
  end
end
