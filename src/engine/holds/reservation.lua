--[[
  Reserve, then commit: a list of reservations beside the counter of another algorithm. Twin of reservation.ts: change
  both or neither.
  limit    { algorithm of the counter (its place in `algorithms`), 1 if reservations end with a window, ttl (ms), 1 if
           hits beyond those reserved are not charged, holder (0: none), 1 if it commits, 1 if lapsed reservations are
           charged, time for which the last one is remembered (ms), the counter's own limit … }
  state    { length of the counter's state, that state …, holder, hits (0: settled, negative: lapsed), when it expires,
           when it was made (ms since the epoch), holder … }, sorted by expiry, or nil for a new counter
  now_ms   may run backwards: nothing expires then
  hits     reserve: hits to hold, 0 to peek; commit: hits used; negative: charged hits to return
  charge   false: returns the outcome, but leaves the counter unchanged
           'regardless': charges the hits even beyond the limit
  Returns  accepted, state, ttl (ms), report: { the event's place, hits reserved, charged and overrun, hits on hold after the
           step, the number of reservations, when the first of them was made, when the last expires, when the requested
           hits can be reserved at the latest or 0, hits lapsed since the last step, in how many reservations, the usage
           that the step adds, the counter's own report … }
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

  -- Prepares a state for all steps of the script: the counter's own state, and the entries from place `first`. `read` is
  -- the state as it was read.
  local function open(state)
    if state and (state.entries or state.opened) then
      return state.opened or state
    end
    local first = state and 2 + state[1] or 1
    local opened = { entries = state and slice(state, first, #state) or {} }
    opened.inner = first > 2 and slice(state, 2, first - 1) or nil
    opened.entries.live, opened.entries.read = 1, state
    if state then
      state.opened = opened
    end
    return opened
  end

  -- The numbers of a state, in a table without what `open` keeps.
  local function copy(state)
    local numbers, lists = {}, state and (state.lists or { state }) or {}
    for i = 1, #lists do
      local list = lists[i]
      for k = list.dropped and list.dropped + 1 or list.first or 1, #list do
        numbers[#numbers + 1] = list[k]
      end
    end
    return state and numbers
  end

  local function flatten(accepted, state, ttl_ms, report)
    return accepted, copy(state), ttl_ms, report
  end

  local function own_place(entries, holder)
    return holder ~= 0 and place_of(entries, SIZE, holder) or nil
  end

  local function is_open(entries, i, now_ms)
    return entries[i + 1] > 0 and entries[i + 2] > now_ms
  end

  local function counts(entries, i, now_ms, start_ms)
    return is_open(entries, i, now_ms) and entries[i + 3] >= start_ms
  end

  -- Adds the entry at a place to those that count, or subtracts it. The first and the last are found again.
  local function count_in(entries, i, by)
    local known = entries.on_hold
    if known and counts(entries, i, known.now_ms, known.start_ms) then
      known.hits, known.count = known.hits + by * entries[i + 1], known.count + by
    end
    if known then
      known.last_ms, known.gone = nil, nil
    end
  end

  -- The reservations that count.
  local function on_hold(entries, now_ms, start_ms)
    local known = entries.on_hold
    if not known or known.start_ms ~= start_ms then
      known = { now_ms = now_ms, start_ms = start_ms, hits = 0, count = 0 }
      for i = entries.live, #entries, SIZE do
        if entries[i + 1] > 0 and entries[i + 2] > now_ms and entries[i + 3] >= start_ms then
          known.hits, known.count = known.hits + entries[i + 1], known.count + 1
        end
      end
      entries.on_hold = known
    end
    if not known.last_ms then
      local first, last = entries.live, #entries - SIZE + 1
      while first <= last and not counts(entries, first, now_ms, start_ms) do
        first = first + SIZE
      end
      while first < last and not counts(entries, last, now_ms, start_ms) do
        last = last - SIZE
      end
      known.first_made_ms = first <= last and entries[first + 3] or 0
      known.last_ms = first <= last and entries[last + 2] or 0
    end
    return known
  end

  local function has_room(entries, now_ms)
    return #entries - entries.live + 1 < MAX_RESERVATIONS * SIZE or not is_open(entries, entries.live, now_ms)
  end

  local function remove_entry(entries, place)
    count_in(entries, place, -1)
    remove(entries, SIZE, place)
  end

  -- Does nothing if the list is full.
  local function add(entries, holder, hits, until_ms, made_ms, now_ms)
    if #entries - entries.live + 1 >= MAX_RESERVATIONS * SIZE then
      if is_open(entries, entries.live, now_ms) then
        return
      end
      entries.live = entries.live + SIZE
    end
    local place = insert(entries, SIZE, holder, hits, until_ms)
    entries[place + 3] = made_ms
    count_in(entries, place, 1)
  end

  -- The smallest number from 1 that is accepted: if one is, so are those after it. high + 1: none is.
  local function first_of(high, is_accepted)
    if high < 1 or is_accepted(1) then -- most often
      return 1
    end
    local low, last = 2, high + 1
    while low < last do
      local middle = math.floor((low + last) / 2)
      if is_accepted(middle) then
        last = middle
      else
        low = middle + 1
      end
    end
    return low
  end

  -- known: what `on_hold` returned; own, own_hits: the entry to leave out
  local function free_at_ms(entries, known, own, own_hits, passes)
    local held = known.hits - own_hits
    local freed = first_of(held, function(hits)
      return passes(held - hits)
    end)
    local gone = known.gone -- hits of the reservations up to each entry
    if not gone then
      gone = {}
      for i = entries.live, #entries, SIZE do
        local hits = counts(entries, i, known.now_ms, known.start_ms) and entries[i + 1] or 0
        gone[#gone + 1] = (gone[#gone] or 0) + hits
      end
      known.gone = gone
    end
    local place = first_of(#gone, function(entry)
      local is_own = own and own <= entries.live + (entry - 1) * SIZE
      return gone[entry] - (is_own and own_hits or 0) >= freed
    end)
    return gone[place] and entries[entries.live + (place - 1) * SIZE + 2] or 0
  end

  local function start_of(limit, inner)
    return limit[2] == 1 and inner[1] or 0
  end

  local function is_lapse_charged(limit, step, numbers, inner, now_ms, until_ms)
    if limit[7] == 0 then
      return false
    end
    local _, peek = step(numbers, inner, now_ms, 0, false)
    return until_ms >= start_of(limit, peek)
  end

  -- Charges what has lapsed since the last step. Stores drop counters limit[8] ms later: older entries are ignored.
  local function lapse(limit, step, numbers, opened, now_ms)
    local entries = opened.entries
    local lapsed, lapses, owed = 0, 0, 0
    local i = entries.live
    while i <= #entries and entries[i + 2] <= now_ms do
      local hits = entries[i + 1]
      if hits > 0 and entries[i + 2] + limit[8] > now_ms then
        lapsed, lapses = lapsed + hits, lapses + 1
        if is_lapse_charged(limit, step, numbers, opened.inner, now_ms, entries[i + 2]) then
          owed = owed + hits
        end
        entries[i + 1] = -hits
      end
      i = i + SIZE
    end
    entries.lapsed, entries.lapses = lapsed, lapses
    if owed > 0 then
      local _, next_state, ttl_ms = step(numbers, opened.inner, now_ms, math.min(owed, MAX_COUNT), 'regardless')
      opened.inner = ttl_ms > 0 and next_state or opened.inner
    end
  end

  local function drop_before(entries, time_ms)
    while entries.live <= #entries and entries[entries.live + 2] <= time_ms do
      entries.live = entries.live + SIZE -- it does not count
    end
  end

  local function read(limit, state, now_ms)
    local opened = open(state)
    local entries = opened.entries
    local step, numbers = algorithms[limit[1]].step, slice(limit, 9, #limit)
    lapse(limit, step, numbers, opened, now_ms)
    drop_before(entries, now_ms - limit[3])
    return step, numbers, opened.inner, entries
  end

  -- done: { event, reserved, charged, overrun, free at (ms), corrected: hits that lapsed as used, and are not }
  local function result_of(limit, now_ms, inner, inner_ttl_ms, inner_report, entries, accepted, done, charge)
    local held = on_hold(entries, now_ms, start_of(limit, inner))
    local lapsed, lapses = charge and entries.lapsed or 0, charge and entries.lapses or 0
    local used = charge and (done[3] or 0) - (done[6] or 0) + (limit[7] == 1 and lapsed or 0) or 0
    local report = {
      done[1], done[2] or 0, done[3] or 0, done[4] or 0,
      held.hits, held.count, held.first_made_ms, held.last_ms, done[5] or 0, lapsed, lapses, used,
    }
    inner_report = inner_report or inner
    for i = 1, #inner_report do
      report[12 + i] = inner_report[i]
    end
    local is_kept = inner_ttl_ms > 0
    entries.first = entries.live
    local state = { inner = is_kept and inner or nil, entries = entries }
    local length = is_kept and #inner - (inner.dropped or 0) or 0
    state.lists = { { length }, state.inner or {}, entries }
    local is_remembered = #entries >= entries.live
    if not charge and (entries.lapsed or 0) > 0 then
      state, is_remembered = entries.read, true -- the next step that may charge does it
      state.opened = nil
    end
    local remembered_ms = is_remembered and entries[#entries - 1] + limit[8] - now_ms or 0
    return accepted, state, math.max(inner_ttl_ms, remembered_ms, 0), report
  end

  local function reserve(limit, state, now_ms, hits, charge)
    local step, numbers, inner, entries = read(limit, state, now_ms)
    local _, peek, peek_ttl_ms, peek_report = step(numbers, inner, now_ms, 0, false)
    local start_ms = start_of(limit, peek)
    local own = own_place(entries, limit[5])
    local own_hits = own and counts(entries, own, now_ms, start_ms) and entries[own + 1] or 0
    local known = on_hold(entries, now_ms, start_ms)
    local held = known.hits - own_hits
    local required = hits == 0 and algorithms[limit[1]].peeked_hits or hits
    local function try_with(on_hold_hits)
      return step(numbers, inner, now_ms, math.min(on_hold_hits + required, MAX_COUNT), false)
    end
    local is_renewed = own and hits > 0 and hits <= own_hits
    local is_full = not own and not has_room(entries, now_ms)
    if not is_renewed and (is_full or not try_with(held)) then
      local accepted, alone, alone_ttl_ms, alone_report = try_with(0)
      if not accepted then
        return result_of(limit, now_ms, alone, alone_ttl_ms, alone_report, entries, false, { REFUSED_ALONE }, charge)
      end
      local free_ms = free_at_ms(entries, known, own, own_hits, function(left)
        return (try_with(left))
      end)
      free_ms = math.max(free_ms, is_full and entries[entries.live + 2] or 0)
      return result_of(limit, now_ms, peek, peek_ttl_ms, peek_report, entries, false, { is_full and FULL or REFUSED, 0, 0, 0, free_ms }, charge)
    end
    if hits == 0 then
      return result_of(limit, now_ms, peek, peek_ttl_ms, peek_report, entries, true, { PEEKED }, charge)
    end
    local done = { RESERVED, hits }
    if not charge then
      return result_of(limit, now_ms, peek, peek_ttl_ms, peek_report, entries, true, done, charge)
    end
    local until_ms = math.max(now_ms + limit[3], own and entries[own + 2] or 0)
    if own then
      remove_entry(entries, own)
    end
    add(entries, limit[5], hits, until_ms, math.max(now_ms, start_ms), now_ms)
    return result_of(limit, now_ms, peek, peek_ttl_ms, peek_report, entries, true, done, charge)
  end

  local function commit(limit, state, now_ms, hits, charge)
    local step, numbers, inner, entries = read(limit, state, now_ms)
    local used = math.max(hits, 0)
    local own = limit[6] == 1 and own_place(entries, limit[5]) or nil
    local kept = own and entries[own + 1] or 0
    local reserved = math.abs(kept)
    local event = limit[6] ~= 1 and used == 0 and PEEKED or UNKNOWN -- a charge of 0 hits only settles
    if own then
      event = reserved == 0 and REPEATED or (entries[own + 2] <= now_ms and LATE or COMMITTED)
    end
    local is_reserved = event == COMMITTED or event == LATE
    local most = limit[4] == 1 and is_reserved and reserved or used
    local charged = event == REPEATED and 0 or math.min(used, most)
    local overrun = is_reserved and math.max(used - reserved, 0) or 0
    local owed = charged
    if kept < 0 and event ~= REPEATED and is_lapse_charged(limit, step, numbers, inner, now_ms, entries[own + 2]) then
      owed = owed - reserved
    end
    local _, next_state, ttl_ms, report = step(numbers, inner, now_ms, owed, charge and 'regardless')
    local done = { event, reserved, charged, overrun, 0, kept < 0 and limit[7] == 1 and reserved or 0 }
    if charge and event ~= REPEATED and limit[6] == 1 and limit[5] ~= 0 then
      if own then
        remove_entry(entries, own)
      end
      add(entries, limit[5], 0, now_ms, now_ms, now_ms)
    end
    return result_of(limit, now_ms, next_state, ttl_ms, report, entries, true, done, charge)
  end

  reservation = function(limit, state, now_ms, hits, charge)
    if limit[6] == 1 or (charge == 'regardless' and hits >= 0) then
      return commit(limit, state, now_ms, hits, charge)
    elseif hits >= 0 then
      return reserve(limit, state, now_ms, hits, hits > 0 and charge)
    end
    local step, numbers, inner, entries = read(limit, state, now_ms)
    local _, next_state, ttl_ms, report = step(numbers, inner, now_ms, hits, charge)
    return result_of(limit, now_ms, next_state, ttl_ms, report, entries, true, { GIVEN_BACK }, charge)
  end

  -- What has lapsed is left to the next step.
  reservation_refund = function(limit, state, now_ms, hits, charged_at_ms)
    local opened = open(copy(state))
    local inner, entries = opened.inner, opened.entries
    local step, numbers = algorithms[limit[1]].step, slice(limit, 9, #limit)
    drop_before(entries, now_ms - limit[8])
    if limit[6] == 1 then
      local _, next_state, ttl_ms, report = algorithms[limit[1]].refund(numbers, inner, now_ms, hits, charged_at_ms)
      return flatten(result_of(limit, now_ms, next_state, ttl_ms, report, entries, true, { GIVEN_BACK }))
    end
    local own = own_place(entries, limit[5])
    if own and entries[own + 1] == hits and entries[own + 2] == charged_at_ms + limit[3] then
      remove_entry(entries, own)
    end
    local _, peek, ttl_ms, report = step(numbers, inner, now_ms, 0, false)
    return flatten(result_of(limit, now_ms, peek, ttl_ms, report, entries, true, { GIVEN_BACK }))
  end
end
