--[[
  Buckets. Twin of `bucket` in bucket.ts: change both or neither.
  limit    { requests per unit, window (ms), size (hits), tick (ms): the unit in which time advances, longest delay
             (ms), the time by which ticks begin before the epoch's (ms; may be absent) }
  state    { spent (hit-ms), refilled at (ms since the epoch) } or nil for a new counter
  now_ms   may run backwards; that refills nothing and forgets nothing
  hits     0 peeks, a negative number gives hits back
  charge   false: returns the outcome, but leaves the counter unchanged
           'regardless': counts hits that have passed already
  Returns  accepted, state, ttl (ms)
]]
local bucket, bucket_refund
do
  local function refill(limit, state, now_ms)
    local requests_per_unit, tick_ms = limit[1], limit[4]
    local ticked_at_ms = now_ms - (now_ms + (limit[6] or 0)) % tick_ms
    if not state then
      return 0, ticked_at_ms
    end
    local refilled = math.max(ticked_at_ms - state[2], 0) * requests_per_unit
    return math.max(state[1] - refilled, 0), math.max(ticked_at_ms, state[2])
  end

  local function wait_ms(limit, spent_ms, refilled_at_ms, now_ms)
    if spent_ms <= 0 then
      return 0
    end
    local requests_per_unit, tick_ms, phase_ms = limit[1], limit[4], limit[6] or 0
    local back_at_ms = refilled_at_ms + phase_ms + math.ceil(spent_ms / requests_per_unit)
    return math.ceil(back_at_ms / tick_ms) * tick_ms - phase_ms - now_ms
  end

  bucket = function(limit, state, now_ms, hits, charge)
    local window_ms, size, max_delay_ms = limit[2], limit[3], limit[5]
    local spent, refilled_at_ms = refill(limit, state, now_ms)
    local required = hits == 0 and 1 or hits
    local missing = spent + (required - size) * window_ms
    local accepted = required < 0 or (required <= size and wait_ms(limit, missing, refilled_at_ms, now_ms) <= max_delay_ms)
    local is_taken = charge == 'regardless' or (charge and accepted)
    local left = is_taken and math.min(math.max(spent + hits * window_ms, 0), MAX_COUNT) or spent
    return accepted, { left, refilled_at_ms }, wait_ms(limit, left, refilled_at_ms, now_ms)
  end

  -- Hits that have been refilled since do not come back: the bucket may have been full in between.
  bucket_refund = function(limit, state, now_ms, hits, charged_at_ms)
    local window_ms, tick_ms = limit[2], limit[4]
    local spent, refilled_at_ms = refill(limit, state, now_ms)
    local refilled_ms = math.max(refilled_at_ms - (charged_at_ms - (charged_at_ms + (limit[6] or 0)) % tick_ms), 0)
    local back = math.max(hits * window_ms - refilled_ms * limit[1], 0)
    local left = math.max(spent - back, 0)
    return true, { left, refilled_at_ms }, wait_ms(limit, left, refilled_at_ms, now_ms)
  end
end
