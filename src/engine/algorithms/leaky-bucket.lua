--[[
  Leaky bucket. Twin of leaky-bucket.ts: change both or neither.
  limit    { requests per unit, window (ms), size (hits), longest delay (ms) }
  state    { backlog (hit-ms), drained at (ms since the epoch) } or nil for a new counter
  now_ms   may run backwards; that drains nothing and forgets nothing
  hits     0 peeks, a negative number gives hits back
  charge   false: returns the outcome, but leaves the counter unchanged
           'regardless': counts hits that have passed already
  Returns  accepted, state, ttl (ms)
]]
local leaky_bucket, leaky_bucket_refund
do
  local function drain(limit, state, now_ms)
    if not state then
      return 0, now_ms
    end
    local leaked = math.max(now_ms - state[2], 0) * limit[1]
    return math.max(state[1] - leaked, 0), math.max(now_ms, state[2])
  end

  local function wait_ms(limit, excess, drained_at_ms, now_ms)
    if excess <= 0 then
      return 0
    end
    return drained_at_ms + math.ceil(excess / limit[1]) - now_ms
  end

  leaky_bucket = function(limit, state, now_ms, hits, charge)
    local window_ms, size, max_delay_ms = limit[2], limit[3], limit[4]
    local backlog, drained_at_ms = drain(limit, state, now_ms)
    local required = hits == 0 and 1 or hits
    local overflow = backlog + (required - size) * window_ms
    local accepted = required < 0 or (required <= size and wait_ms(limit, overflow, drained_at_ms, now_ms) <= max_delay_ms)
    local is_taken = charge == 'regardless' or (charge and accepted)
    local left = is_taken and math.min(math.max(backlog + hits * window_ms, 0), MAX_COUNT) or backlog
    return accepted, { left, drained_at_ms }, wait_ms(limit, left, drained_at_ms, now_ms)
  end

  -- Hits that have leaked out since do not come back: the bucket may have been empty in between.
  leaky_bucket_refund = function(limit, state, now_ms, hits, charged_at_ms)
    local backlog, drained_at_ms = drain(limit, state, now_ms)
    local leaked = math.max(drained_at_ms - charged_at_ms, 0) * limit[1]
    local back = math.max(hits * limit[2] - leaked, 0)
    local left = math.max(backlog - back, 0)
    return true, { left, drained_at_ms }, wait_ms(limit, left, drained_at_ms, now_ms)
  end
end
