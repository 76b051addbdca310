--[[
  Token bucket. Twin of token-bucket.ts: change both or neither.
  limit    { requests per unit, window (ms), size (tokens), tick (ms): what time advances by, longest delay (ms) }
  state    { level (token-ms), filled at (ms since the epoch) } or nil for a new counter
  now_ms   may run backwards; that refills nothing and forgets nothing
  hits     0 looks, below 0 gives back
  charge   false: says what would become of the hits, but leaves the counter as it is
           'regardless': counts hits that have passed already
  Returns  accepted, state, ttl (ms)
]]
local token_bucket, token_bucket_refund
do
  local function refill(limit, capacity, state, now_ms)
    local requests_per_unit, tick_ms = limit[1], limit[4]
    local ticked_at_ms = now_ms - now_ms % tick_ms
    local level = math.min(state and state[1] or capacity, capacity)
    local filled_at_ms = state and state[2] or ticked_at_ms
    local added = math.max(ticked_at_ms - filled_at_ms, 0) * requests_per_unit
    level = added >= capacity - level and capacity or level + added
    return level, math.max(ticked_at_ms, filled_at_ms)
  end

  local function wait_ms(limit, level, filled_at_ms, now_ms)
    if level >= 0 then
      return 0
    end
    local requests_per_unit, tick_ms = limit[1], limit[4]
    return filled_at_ms + math.ceil(-level / (requests_per_unit * tick_ms)) * tick_ms - now_ms
  end

  token_bucket = function(limit, state, now_ms, hits, charge)
    local window_ms, size, max_delay_ms = limit[2], limit[3], limit[5]
    local capacity = size * window_ms
    local level, filled_at_ms = refill(limit, capacity, state, now_ms)
    local asked = hits == 0 and 1 or hits
    local accepted = asked < 0
      or (asked <= size and wait_ms(limit, level - asked * window_ms, filled_at_ms, now_ms) <= max_delay_ms)
    local missing = math.ceil((capacity - level) / window_ms)
    local cost = math.max(hits, -missing) * window_ms
    local left = accepted and charge and math.min(level - cost, capacity) or level
    if charge == 'regardless' then
      left = math.max(level - math.min(hits, size) * window_ms, math.min(level, -capacity))
    end
    return accepted, { left, filled_at_ms }, wait_ms(limit, left - capacity, filled_at_ms, now_ms)
  end

  -- What has been refilled since does not come back: the bucket may have been full in between.
  token_bucket_refund = function(limit, state, now_ms, hits, charged_at_ms)
    local window_ms, size, tick_ms = limit[2], limit[3], limit[4]
    local capacity = size * window_ms
    local level, filled_at_ms = refill(limit, capacity, state, now_ms)
    local refilled_ms = math.max(filled_at_ms - (charged_at_ms - charged_at_ms % tick_ms), 0)
    local back = math.max(math.min(hits, size) * window_ms - refilled_ms * limit[1], 0)
    local left = math.min(level + back, capacity)
    return true, { left, filled_at_ms }, wait_ms(limit, left - capacity, filled_at_ms, now_ms)
  end
end
