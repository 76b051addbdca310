--[[
  Requests in flight. Twin of in-flight.ts: change both or neither.
  limit    { slots, ttl (ms), holder (0: anonymous) }
  state    { holder, its slots, when they expire (ms since the epoch), holder … }, sorted by expiry, or nil for a new
           counter
  now_ms   may run backwards: nothing expires then
  hits     slots; 0 peeks, a negative number releases
  charge   false: returns the outcome, but leaves the counter unchanged
           'regardless': takes slots even beyond the limit
  Returns  accepted, state, ttl (ms), report: { slots held before and after, when the last of them expires, when the requested
             slots will be free at the latest or 0, slots that have expired since the last step that took or released
             some, when the first of them expires or 0 }
]]
local in_flight, in_flight_refund
do
  local ANONYMOUS, PARTS, SIZE = 0, 64, 3 -- as in the twin

  local function unexpired(holds, now_ms)
    local kept, slots, expired = {}, 0, 0
    for i = 1, #holds, SIZE do
      if #kept > 0 or holds[i + 2] > now_ms then
        local size = #kept
        kept[size + 1], kept[size + 2], kept[size + 3] = holds[i], holds[i + 1], holds[i + 2]
        slots = slots + holds[i + 1]
      else
        expired = expired + holds[i + 1]
      end
    end
    return kept, slots, expired
  end

  local function place_of(holds, holder)
    for i = 1, #holds, SIZE do
      if holds[i] == holder then
        return i
      end
    end
    return nil
  end

  -- Removes one hold.
  local function remove(holds, place)
    local size = #holds
    for i = place, size - SIZE do
      holds[i] = holds[i + SIZE]
    end
    holds[size], holds[size - 1], holds[size - 2] = nil, nil, nil
  end

  local function insert(holds, holder, slots, until_ms)
    local place = #holds + 1
    while place > 1 and holds[place - 1] > until_ms do
      holds[place], holds[place + 1], holds[place + 2] = holds[place - 3], holds[place - 2], holds[place - 1]
      place = place - SIZE
    end
    holds[place], holds[place + 1], holds[place + 2] = holder, slots, until_ms
  end

  local function expires_at_ms(limit, now_ms)
    if limit[3] ~= ANONYMOUS then
      return now_ms + limit[2]
    end
    local part_ms = math.ceil(limit[2] / PARTS)
    return math.ceil((now_ms + limit[2]) / part_ms) * part_ms
  end

  local function take_anonymous(holds, until_ms, slots)
    for i = #holds - SIZE + 1, 1, -SIZE do
      if holds[i] == ANONYMOUS then
        if holds[i + 2] < until_ms then
          break
        end
        holds[i + 1] = holds[i + 1] + slots
        return
      end
    end
    insert(holds, ANONYMOUS, slots, until_ms)
  end

  local function take(holds, limit, now_ms, slots)
    local holder, until_ms = limit[3], expires_at_ms(limit, now_ms)
    if holder == ANONYMOUS then
      return take_anonymous(holds, until_ms, slots)
    end
    local place = place_of(holds, holder)
    if place then
      until_ms = math.max(until_ms, holds[place + 2])
      remove(holds, place)
    end
    insert(holds, holder, slots, until_ms)
  end

  local function release(holds, holder, slots)
    local i = 1
    while i <= #holds and slots > 0 do
      local held = holds[i + 1]
      if holds[i] ~= holder then
        i = i + SIZE
      elseif held > slots then
        holds[i + 1] = held - slots
        return
      else
        remove(holds, i)
        slots = slots - held
      end
    end
  end

  local function slots_in(holds)
    local slots = 0
    for i = 2, #holds, SIZE do
      slots = slots + holds[i]
    end
    return slots
  end

  local function free_at_ms(holds, excess)
    for i = 1, #holds, SIZE do
      if excess <= 0 then
        return 0
      end
      excess = excess - holds[i + 1]
      if excess <= 0 then
        return holds[i + 2]
      end
    end
    return 0
  end

  -- One ttl beyond the last hold, so that expired holds are reported.
  local function ttl_of(limit, holds, now_ms)
    return #holds == 0 and 0 or holds[#holds] + limit[2] - now_ms
  end

  local function result_of(limit, holds, now_ms, before, accepted, requested, expired)
    local held, last_ms = slots_in(holds), holds[#holds] or now_ms
    local free_ms = free_at_ms(holds, held + requested - limit[1])
    return accepted, holds, ttl_of(limit, holds, now_ms), { before, held, last_ms, free_ms, expired, holds[3] or 0 }
  end

  in_flight = function(limit, state, now_ms, hits, charge)
    local size, holder = limit[1], limit[3]
    if not state or (state[#state] or 0) + limit[2] <= now_ms then
      state = {} -- the counter has expired
    end
    local holds, held, expired = unexpired(state, now_ms)
    local own = 0
    if holder ~= ANONYMOUS then
      local place = place_of(holds, holder)
      own = place and holds[place + 1] or 0
    end
    local requested = hits == 0 and 1 or hits
    local accepted = hits < 0 or requested <= own or held - own + requested <= size
    if charge and hits < 0 then
      release(holds, holder, -hits)
    end
    local is_taken = charge == 'regardless' or (charge and (accepted or holder == ANONYMOUS))
    local slots = math.min(hits, MAX_COUNT - (held - own))
    if slots > 0 and is_taken then
      take(holds, limit, now_ms, slots)
    end
    local _, _, ttl_ms, report = result_of(limit, holds, now_ms, held, accepted, requested, expired)
    if charge and hits ~= 0 then
      return accepted, holds, ttl_ms, report
    end
    return accepted, state, ttl_of(limit, state, now_ms), report
  end

  -- Only slots that were taken at exactly that time, and not renewed since, come back.
  in_flight_refund = function(limit, state, now_ms, hits, charged_at_ms)
    local holds, held = unexpired(state or {}, now_ms)
    local until_ms = expires_at_ms(limit, charged_at_ms)
    for i = 1, #holds, SIZE do
      if holds[i] == limit[3] and holds[i + 2] == until_ms then
        if holds[i + 1] > hits then
          holds[i + 1] = holds[i + 1] - hits
        else
          remove(holds, i)
        end
        break
      end
    end
    return result_of(limit, holds, now_ms, held, true, 1, 0)
  end
end
