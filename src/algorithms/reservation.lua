--[[
  Reserve, then commit: a list of reservations beside the counter of another algorithm. Twin of reservation.ts, with
  reservation-list.ts: change both or neither.
  limit    { algorithm of the counter (its place in `algorithms`), 1 if reservations end with a window, ttl (ms), 1 if
           hits beyond those reserved are not charged, holder (0: none), 1 if it commits, the counter's own limit … }
  state    { length of the counter's state, that state …, holder, hits (0: settled), when it expires, when it was made
           (ms since the epoch), holder … }, sorted by expiry, or nil for a new counter
  now_ms   may run backwards: nothing expires then
  hits     reserve: hits to hold, 0 to peek; commit: hits used; negative: charged hits to return
  charge   false: returns the outcome, but leaves the counter unchanged
           'regardless': charges the hits even beyond the limit
  Returns  accepted, state, ttl (ms), report: { the event's place, hits reserved, charged and overrun, hits on hold after the
           step, the number of reservations, when the first of them was made, when the last expires, when the requested
           hits can be reserved at the latest or 0, the counter's own report … }
]]
local reservation, reservation_refund
do
  local SIZE, MAX_RESERVATIONS = 4, 1000 -- as in the twin
  local PEEKED, REFUSED, REFUSED_ALONE, RESERVED, COMMITTED, LATE, UNKNOWN, REPEATED, GIVEN_BACK, FULL = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9
  local CHUNK = 128 -- numbers at a time: Lua limits the values that one call returns

  local function slice(numbers, first, last)
    if last - first < CHUNK then
      return { unpack(numbers, first, last) }
    end
    local part = {}
    for i = first, last do
      part[i - first + 1] = numbers[i]
    end
    return part
  end

  local function place_of(entries, holder)
    if holder == 0 then
      return nil
    end
    for i = 1, #entries, SIZE do
      if entries[i] == holder then
        return i
      end
    end
    return nil
  end

  local function is_open(entries, i, now_ms)
    return entries[i + 1] > 0 and entries[i + 2] > now_ms
  end

  local function counts(entries, i, now_ms, start_ms)
    return is_open(entries, i, now_ms) and entries[i + 3] >= start_ms
  end

  -- own: the place of an entry to leave out
  local function on_hold(entries, now_ms, start_ms, own)
    local hits, count, first_made_ms, last_ms = 0, 0, 0, 0
    for i = 1, #entries, SIZE do
      if i ~= own and counts(entries, i, now_ms, start_ms) then
        if count == 0 then
          first_made_ms = entries[i + 3]
        end
        last_ms = entries[i + 2]
        hits = hits + entries[i + 1]
        count = count + 1
      end
    end
    return hits, count, first_made_ms, last_ms
  end

  local function has_room(entries, now_ms)
    return #entries < MAX_RESERVATIONS * SIZE or not is_open(entries, 1, now_ms)
  end

  local function without(entries, place)
    local left, size = {}, 0
    for i = 1, #entries do
      if i < place or i >= place + SIZE then
        size = size + 1
        left[size] = entries[i]
      end
    end
    return left
  end

  -- Modifies the list, or returns a copy without its first entry if it is full.
  local function insert(entries, holder, hits, until_ms, made_ms, now_ms)
    if #entries >= MAX_RESERVATIONS * SIZE then
      if is_open(entries, 1, now_ms) then
        return entries
      end
      entries = without(entries, 1)
    end
    local place = #entries + 1
    while place > 1 and entries[place - 2] > until_ms do
      for i = place - SIZE, place - 1 do
        entries[i + SIZE] = entries[i]
      end
      place = place - SIZE
    end
    entries[place], entries[place + 1], entries[place + 2], entries[place + 3] = holder, hits, until_ms, made_ms
    return entries
  end

  local function free_at_ms(entries, now_ms, start_ms, own, passes)
    local size = #entries
    local function hits_in(from, to)
      local hits = 0
      for i = from, to - 1, SIZE do
        if i ~= own and counts(entries, i, now_ms, start_ms) then
          hits = hits + entries[i + 1]
        end
      end
      return hits
    end
    local low, high = 1, size + 1
    while low <= size and (low == own or not counts(entries, low, now_ms, start_ms)) do
      low = low + SIZE
    end
    local left = hits_in(low, high)
    if passes(left - hits_in(low, math.min(low + SIZE, high))) then
      return low <= size and entries[low + 2] or 0
    end
    while low < high do
      local middle = low + math.floor((high - low) / SIZE / 2) * SIZE
      local gone = hits_in(low, middle + SIZE)
      if passes(left - gone) then
        high = middle
      else
        low, left = middle + SIZE, left - gone
      end
    end
    return low <= size and entries[low + 2] or 0
  end

  local function read(limit, state, now_ms)
    local inner, entries = nil, {}
    if state then
      local first = 2 + state[1]
      if first > 2 then
        inner = slice(state, 2, first - 1)
      end
      while first <= #state and state[first + 2] + limit[3] <= now_ms do
        first = first + SIZE
      end
      entries = slice(state, first, #state)
    end
    local numbers = slice(limit, 7, #limit)
    return algorithms[limit[1]].step, numbers, inner, entries
  end

  local function start_of(limit, inner)
    return limit[2] == 1 and inner[1] or 0
  end

  -- done: { event, reserved, charged, overrun, free at (ms) }
  local function result_of(limit, now_ms, inner, inner_ttl_ms, inner_report, entries, accepted, done)
    local hits, count, first_made_ms, last_ms = on_hold(entries, now_ms, start_of(limit, inner))
    local report = { done[1], done[2] or 0, done[3] or 0, done[4] or 0, hits, count, first_made_ms, last_ms, done[5] or 0 }
    inner_report = inner_report or inner
    for i = 1, #inner_report do
      report[9 + i] = inner_report[i]
    end
    local state, size = { 0 }, 1
    if inner_ttl_ms > 0 then
      state[1], size = #inner, 1 + #inner
      for i = 1, #inner do
        state[1 + i] = inner[i]
      end
    end
    for i = 1, #entries do
      state[size + i] = entries[i]
    end
    local remembered_ms = #entries > 0 and entries[#entries - 1] + limit[3] - now_ms or 0
    return accepted, state, math.max(inner_ttl_ms, remembered_ms, 0), report
  end

  local function reserve(limit, state, now_ms, hits, charge)
    local step, numbers, inner, entries = read(limit, state, now_ms)
    local _, peek, peek_ttl_ms, peek_report = step(numbers, inner, now_ms, 0, false)
    local start_ms = start_of(limit, peek)
    local own = place_of(entries, limit[5])
    local held = on_hold(entries, now_ms, start_ms, own)
    local required = hits == 0 and algorithms[limit[1]].peeked_hits or hits
    local function try_with(on_hold_hits)
      return step(numbers, inner, now_ms, math.min(on_hold_hits + required, MAX_COUNT), false)
    end
    local own_hits = own and counts(entries, own, now_ms, start_ms) and entries[own + 1] or 0
    local is_renewed = own and hits > 0 and hits <= own_hits
    local is_full = not own and not has_room(entries, now_ms)
    if not is_renewed and (is_full or not try_with(held)) then
      local accepted, alone, alone_ttl_ms, alone_report = try_with(0)
      if not accepted then
        return result_of(limit, now_ms, alone, alone_ttl_ms, alone_report, entries, false, { REFUSED_ALONE })
      end
      local free_ms = free_at_ms(entries, now_ms, start_ms, own, function(left)
        return (try_with(left))
      end)
      free_ms = math.max(free_ms, is_full and entries[3] or 0)
      return result_of(limit, now_ms, peek, peek_ttl_ms, peek_report, entries, false, { is_full and FULL or REFUSED, 0, 0, 0, free_ms })
    end
    if hits == 0 then
      return result_of(limit, now_ms, peek, peek_ttl_ms, peek_report, entries, true, { PEEKED })
    end
    local done = { RESERVED, hits }
    if not charge then
      return result_of(limit, now_ms, peek, peek_ttl_ms, peek_report, entries, true, done)
    end
    local until_ms = math.max(now_ms + limit[3], own and entries[own + 2] or 0)
    local left = insert(own and without(entries, own) or entries, limit[5], hits, until_ms, math.max(now_ms, start_ms), now_ms)
    return result_of(limit, now_ms, peek, peek_ttl_ms, peek_report, left, true, done)
  end

  local function commit(limit, state, now_ms, hits, charge)
    local step, numbers, inner, entries = read(limit, state, now_ms)
    local used = math.max(hits, 0)
    local own = limit[6] == 1 and place_of(entries, limit[5]) or nil
    local reserved = own and entries[own + 1] or 0
    local event = UNKNOWN
    if own then
      event = reserved == 0 and REPEATED or (entries[own + 2] <= now_ms and LATE or COMMITTED)
    end
    local is_reserved = event == COMMITTED or event == LATE
    local most = limit[4] == 1 and is_reserved and reserved or used
    local charged = event == REPEATED and 0 or math.min(used, most)
    local overrun = is_reserved and math.max(used - reserved, 0) or 0
    local _, next_state, ttl_ms, report = step(numbers, inner, now_ms, charged, charge and 'regardless')
    local done = { event, reserved, charged, overrun }
    if charge and event ~= REPEATED and limit[6] == 1 and limit[5] ~= 0 then
      entries = insert(own and without(entries, own) or entries, limit[5], 0, now_ms, now_ms, now_ms)
    end
    return result_of(limit, now_ms, next_state, ttl_ms, report, entries, true, done)
  end

  reservation = function(limit, state, now_ms, hits, charge)
    if limit[6] == 1 or (charge == 'regardless' and hits >= 0) then
      return commit(limit, state, now_ms, hits, charge)
    elseif hits >= 0 then
      return reserve(limit, state, now_ms, hits, charge)
    end
    local step, numbers, inner, entries = read(limit, state, now_ms)
    local _, next_state, ttl_ms, report = step(numbers, inner, now_ms, hits, charge)
    return result_of(limit, now_ms, next_state, ttl_ms, report, entries, true, { GIVEN_BACK })
  end

  reservation_refund = function(limit, state, now_ms, hits, charged_at_ms)
    local step, numbers, inner, entries = read(limit, state, now_ms)
    if limit[6] == 1 then
      local _, next_state, ttl_ms, report = algorithms[limit[1]].refund(numbers, inner, now_ms, hits, charged_at_ms)
      return result_of(limit, now_ms, next_state, ttl_ms, report, entries, true, { GIVEN_BACK })
    end
    local own = place_of(entries, limit[5])
    if own and entries[own + 1] == hits and entries[own + 2] == charged_at_ms + limit[3] then
      entries = without(entries, own)
    end
    local _, peek, ttl_ms, report = step(numbers, inner, now_ms, 0, false)
    return result_of(limit, now_ms, peek, ttl_ms, report, entries, true, { GIVEN_BACK })
  end
end
