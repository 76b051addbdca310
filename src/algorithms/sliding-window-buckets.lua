--[[
  Sliding window in equal parts. Twin of sliding-window-buckets.ts: change both or neither.
  limit    { capacity (hits), part (ms), parts, the time by which windows begin before the epoch's (ms; may be absent) }
  state    { start of the current part (ms since the epoch), counts, newest first, without the zeros at the end }
             or nil for a new counter
  now_ms   may run backwards; the later part remains current
  hits     0 peeks, a negative number gives hits back
  charge   false: returns the outcome, but leaves the counter unchanged
           'regardless': counts hits that have passed already
  Returns  accepted, state, ttl (ms)
]]
local sliding_window_buckets, sliding_window_buckets_refund
do
  -- The state is the start, then the counts: the count of the part that is `age` parts old is at age + 2.
  local function shift(limit, state, now_ms)
    local part_ms, buckets = limit[2], limit[3]
    local start_ms = now_ms - (now_ms + (limit[4] or 0)) % part_ms
    if not state then
      return { start_ms }
    end
    local parts = math.max((start_ms - state[1]) / part_ms, 0)
    local shifted = { math.max(start_ms, state[1]) }
    if #state > 1 and parts <= buckets then
      for age = 0, math.min(#state - 2 + parts, buckets) do
        shifted[age + 2] = age >= parts and state[age - parts + 2] or 0
      end
    end
    return shifted
  end

  local function result_of(limit, next_state, now_ms, accepted)
    local part_ms, buckets = limit[2], limit[3]
    while #next_state > 1 and next_state[#next_state] == 0 do
      next_state[#next_state] = nil
    end
    local empty_at_ms = next_state[1]
    for i = #next_state, 2, -1 do
      if next_state[i] > 0 then
        empty_at_ms = next_state[1] + (buckets + 1 - (i - 2)) * part_ms
      end
    end
    return accepted, next_state, empty_at_ms - now_ms
  end

  sliding_window_buckets = function(limit, state, now_ms, hits, charge)
    local capacity = limit[1]
    local next_state = shift(limit, state, now_ms)
    local used = 0
    for i = 2, #next_state do
      used = used + next_state[i]
    end
    local accepted = hits < 0 or used + (hits == 0 and 1 or hits) <= capacity
    local is_counted = charge == 'regardless' or (accepted and charge)
    if is_counted and hits > 0 then
      next_state[2] = (next_state[2] or 0) + math.min(hits, MAX_COUNT - used)
    end
    local give_back = charge and math.max(-hits, 0) or 0
    for i = 2, #next_state do
      local given = math.min(next_state[i], give_back)
      next_state[i] = next_state[i] - given
      give_back = give_back - given
    end
    return result_of(limit, next_state, now_ms, accepted)
  end

  -- Returns hits to the part in which they were counted.
  sliding_window_buckets_refund = function(limit, state, now_ms, hits, charged_at_ms)
    local part_ms = limit[2]
    local next_state = shift(limit, state, now_ms)
    local age = math.max((next_state[1] - (charged_at_ms - (charged_at_ms + (limit[4] or 0)) % part_ms)) / part_ms, 0)
    local count = next_state[age + 2]
    if count then
      next_state[age + 2] = math.max(count - hits, 0)
    end
    return result_of(limit, next_state, now_ms, true)
  end
end
