--[[
  Allocation. Twin of allocation.ts: change both or neither.
  limit    { size (hits), how long a counter is kept that nobody uses (ms) }
  state    { hits taken } or nil for a new counter
  now_ms   has no effect: no hit comes back with time
  hits     0 peeks, a negative number gives hits back
  charge   false: returns the outcome, but leaves the counter unchanged
           'regardless': takes hits even beyond the limit
  Returns  accepted, state, ttl (ms)
]]
local allocation, allocation_refund
do
  local function result_of(limit, accepted, taken)
    return accepted, { taken }, taken > 0 and limit[2] or 0
  end

  allocation = function(limit, state, _, hits, charge)
    local before = state and state[1] or 0
    local required = hits == 0 and 1 or hits
    local accepted = hits < 0 or before + required <= limit[1]
    local is_taken = charge == 'regardless' or (charge and accepted)
    return result_of(limit, accepted, is_taken and math.min(math.max(before + hits, 0), MAX_COUNT) or before)
  end

  allocation_refund = function(limit, state, _, hits)
    return result_of(limit, true, math.max((state and state[1] or 0) - hits, 0))
  end
end
