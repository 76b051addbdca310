--[[
  Sliding window in equal parts. Twin of sliding-window-buckets.ts: change both or neither.
  limit    { capacity (hits), part (ms), parts, the time by which windows begin before the epoch's (ms; may be absent) }
  state    { start of the current part (ms since the epoch), counts, newest first, without the zeros at the end }
             or nil for a new counter
  now_ms   may run backwards; the later part remains current
  hits     0 peeks, a negative number gives hits back
  charge   false: returns the outcome, but leaves the counter unchanged
           'regardless': counts hits that have passed already
  Returns  accepted, state, ttl (ms), report: { hits before and after, when the last of them leaves the window, when the
             requested hits will fit or 0 }
]]
local sliding_window_buckets, sliding_window_buckets_refund
do
  -- The state is the start, then the counts: the count of the part that is `age` parts old is at age + 2. All steps
  -- of the script use what this returns: `used` is the sum of the counts.
  local function shift(limit, state, now_ms)
    if state and state.used then
      return state
    end
    local part_ms, buckets = limit[2], limit[3]
    local start_ms = now_ms - (now_ms + (limit[4] or 0)) % part_ms
    local shifted = { start_ms, used = 0 }
    if not state then
      return shifted
    end
    shifted[1] = math.max(start_ms, state[1])
    local parts = math.max((start_ms - state[1]) / part_ms, 0)
    if #state > 1 and parts <= buckets then
      for age = 0, math.min(#state - 2 + parts, buckets) do
        local count = age >= parts and state[age - parts + 2] or 0
        shifted[age + 2], shifted.used = count, shifted.used + count
      end
    end
    return shifted
  end

  -- Takes hits from the counts, beginning with that of one part.
  local function take(state, first, hits)
    for i = first, #state do
      if hits <= 0 then
        break
      end
      local taken = math.min(state[i], hits)
      state[i], state.used, hits = state[i] - taken, state.used - taken, hits - taken
    end
  end

  local function leaves_at_ms(limit, state, place)
    return state[1] + (limit[3] + 1 - (place - 2)) * limit[2]
  end

  local function fits_at_ms(limit, state, excess)
    if excess > 0 and excess <= state.used then
      for i = #state, 2, -1 do
        excess = excess - state[i]
        if excess <= 0 then
          return leaves_at_ms(limit, state, i)
        end
      end
    end
    return 0
  end

  local function result_of(limit, state, now_ms, before, accepted, requested)
    while #state > 1 and state[#state] == 0 do
      state[#state] = nil
    end
    local newest = 2
    while state[newest] == 0 do
      newest = newest + 1
    end
    local empty_at_ms = state[newest] and leaves_at_ms(limit, state, newest) or state[1]
    local report = { before, state.used, empty_at_ms, fits_at_ms(limit, state, state.used + requested - limit[1]) }
    return accepted, state, empty_at_ms - now_ms, report
  end

  sliding_window_buckets = function(limit, state, now_ms, hits, charge)
    local next_state = shift(limit, state, now_ms)
    local before = next_state.used
    local requested = hits == 0 and 1 or hits
    local accepted = hits < 0 or before + requested <= limit[1]
    local is_counted = charge == 'regardless' or (accepted and charge)
    if is_counted and hits > 0 then
      local counted = math.min(hits, MAX_COUNT - before)
      next_state[2], next_state.used = (next_state[2] or 0) + counted, before + counted
    end
    if charge then
      take(next_state, 2, -hits)
    end
    return result_of(limit, next_state, now_ms, before, accepted, requested)
  end

  -- Returns hits to the part in which they were counted.
  sliding_window_buckets_refund = function(limit, state, now_ms, hits, charged_at_ms)
    local part_ms = limit[2]
    local next_state = shift(limit, state, now_ms)
    local before = next_state.used
    local age = math.max((next_state[1] - (charged_at_ms - (charged_at_ms + (limit[4] or 0)) % part_ms)) / part_ms, 0)
    if next_state[age + 2] then
      take(next_state, age + 2, math.min(hits, next_state[age + 2]))
    end
    return result_of(limit, next_state, now_ms, before, true, 1)
  end
end
