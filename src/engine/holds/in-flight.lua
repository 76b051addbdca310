--[[
  Requests in flight. Twin of in-flight.ts: change both or neither.
  limit    { slots, ttl (ms), holder (0: anonymous); if children share them: what slot-share.lua calls sharing }
  state    { holder, its slots, when they expire (ms since the epoch), holder … }, sorted by expiry, or nil for a new
           counter; with more numbers in each hold if children share the slots
  now_ms   may run backwards: nothing expires then
  hits     slots; 0 peeks, a negative number releases
  charge   false: returns the outcome, but leaves the counter unchanged
           'regardless': takes slots even beyond the limit
  Returns  accepted, state, ttl (ms), report: { slots held before and after, when the last of them expires, when the
             requested slots will be free at the latest or 0, slots that have expired since the last step that took or
             released some, when the first of them expires or 0; if children share the slots: reason of a refusal or 0,
             its level, slots of the child, those beyond its reservation, what is left of it; held for others; room }
]]
local in_flight, in_flight_refund
do
  local ANONYMOUS, PARTS, PLAIN_SIZE, SHARED_SIZE = 0, 64, 3, 6 -- as in the twin
  local SIZE -- of a hold of this counter

  -- Prepares the holds for all steps of the script: `first` is the place of the first, `live` that of the first that
  -- has not expired, `held` the sum of slots from there, `expired` that of the slots before.
  local function open(holds, now_ms)
    if holds and holds.held then
      return holds
    end
    holds = holds or {}
    local live, held, expired = 1, 0, 0
    while live <= #holds and holds[live + 2] <= now_ms do
      expired = expired + holds[live + 1]
      live = live + SIZE
    end
    for i = live + 1, #holds, SIZE do
      held = held + holds[i]
    end
    holds.first, holds.live, holds.held, holds.expired = 1, live, held, expired
    return holds
  end

  local function drop_expired(holds)
    holds.first, holds.expired = holds.live, 0
  end

  local function take_hold(holds, limit, slots, until_ms)
    local place = insert(holds, SIZE, limit[3], slots, until_ms)
    for i = 3, SIZE - 1 do
      holds[place + i] = limit[4 * i - 5] or 0 -- the ids of the children
    end
    holds.held = holds.held + slots
  end

  local function remove_hold(holds, place)
    holds.held = holds.held - holds[place + 1]
    remove(holds, SIZE, place)
  end

  local function expires_at_ms(limit, now_ms)
    if limit[3] ~= ANONYMOUS then
      return now_ms + limit[2]
    end
    local part_ms = math.ceil(limit[2] / PARTS)
    return math.ceil((now_ms + limit[2]) / part_ms) * part_ms
  end

  local function take_anonymous(holds, limit, until_ms, slots)
    for i = #holds - SIZE + 1, holds.live, -SIZE do
      if holds[i] == ANONYMOUS then
        if holds[i + 2] < until_ms then
          break
        end
        holds[i + 1] = holds[i + 1] + slots
        holds.held = holds.held + slots
        return
      end
    end
    take_hold(holds, limit, slots, until_ms)
  end

  local function take(holds, limit, now_ms, slots)
    local holder, until_ms = limit[3], expires_at_ms(limit, now_ms)
    if holder == ANONYMOUS then
      return take_anonymous(holds, limit, until_ms, slots)
    end
    local place = place_of(holds, SIZE, holder)
    if place then
      until_ms = math.max(until_ms, holds[place + 2])
      remove_hold(holds, place)
    end
    take_hold(holds, limit, slots, until_ms)
  end

  local function release(holds, holder, slots)
    local place = place_of(holds, SIZE, holder)
    while place and slots > 0 do
      local held = holds[place + 1]
      if held > slots then
        holds[place + 1] = held - slots
        holds.held = holds.held - slots
        return
      end
      remove_hold(holds, place)
      slots = slots - held
      place = place_of(holds, SIZE, holder)
    end
  end

  local function free_at_ms(holds, excess)
    if excess <= 0 or excess > holds.held then
      return 0
    end
    for i = holds.live + 1, #holds, SIZE do
      excess = excess - holds[i]
      if excess <= 0 then
        return holds[i + 1]
      end
    end
    return 0
  end

  local function sharing_of(limit)
    return limit[4] and { unpack(limit, 4) }
  end

  local function last_until_ms(holds)
    return holds[#holds - SIZE + 3]
  end

  -- One ttl beyond the last hold, so that expired holds are reported.
  local function result_of(limit, holds, now_ms, before, accepted, requested, expired, reason, at)
    local first, last = holds.live, #holds - SIZE + 1 -- of those with slots
    while holds[first + 1] == 0 do
      first = first + SIZE
    end
    while last >= holds.live and holds[last + 1] == 0 do
      last = last - SIZE
    end
    local last_ms = last >= holds.live and holds[last + 2] or now_ms
    local ttl_ms = #holds >= holds.first and last_until_ms(holds) + limit[2] - now_ms or 0
    local excess = math.max(holds.held + requested - limit[1], reason ~= 0 and 1 or 0)
    local report = { before, holds.held, last_ms, free_at_ms(holds, excess), expired, holds[first + 2] or 0 }
    local sharing = sharing_of(limit)
    if sharing then
      local share = report_share(limit[1], sharing, holds, reason, at)
      for i = 1, #share do
        report[6 + i] = share[i]
      end
    end
    return accepted, holds, ttl_ms, report
  end

  in_flight = function(limit, state, now_ms, hits, charge)
    local size, holder = limit[1], limit[3]
    SIZE = limit[4] and SHARED_SIZE or PLAIN_SIZE
    if state and (last_until_ms(state) or 0) + limit[2] <= now_ms then
      state = nil -- the counter has expired
    end
    local holds, sharing = open(state, now_ms), sharing_of(limit)
    local before, expired, own = holds.held, holds.expired, 0
    if holder ~= ANONYMOUS then
      local place = place_of(holds, SIZE, holder)
      own = place and holds[place + 1] or 0
    end
    local requested = hits == 0 and 1 or hits
    local accepted = hits < 0 or requested <= own or before - own + requested <= size
    local reason, at = 0, 0
    if sharing and hits >= 0 and requested > own then
      local leaf, least = open_slots(size, sharing, holds, requested - own)
      reason, at = judge(leaf, requested - own, least)
      accepted = reason == 0
    end
    if charge and hits ~= 0 then
      drop_expired(holds)
    end
    if charge and hits < 0 then
      release(holds, holder, -hits)
    end
    local is_taken = charge == 'regardless' or (charge and (accepted or holder == ANONYMOUS))
    local slots = math.min(hits, MAX_COUNT - (before - own))
    if slots > 0 and is_taken then
      take(holds, limit, now_ms, slots)
    end
    if sharing and charge and hits ~= 0 then
      mark_call(holds, sharing, reason, at, now_ms)
    end
    return result_of(limit, holds, now_ms, before, accepted, requested, expired, reason, at)
  end

  -- Only slots that were taken at exactly that time, and not renewed since, come back.
  in_flight_refund = function(limit, state, now_ms, hits, charged_at_ms)
    SIZE = limit[4] and SHARED_SIZE or PLAIN_SIZE
    local holds = open(state, now_ms)
    drop_expired(holds)
    local before, until_ms = holds.held, expires_at_ms(limit, charged_at_ms)
    for i = holds.live, #holds, SIZE do
      if holds[i] == limit[3] and holds[i + 2] == until_ms and holds[i + 1] > 0 then
        if holds[i + 1] > hits then
          holds[i + 1] = holds[i + 1] - hits
          holds.held = before - hits
        else
          remove_hold(holds, i)
        end
        break
      end
    end
    return result_of(limit, holds, now_ms, before, true, 1, 0, 0, 0)
  end
end
