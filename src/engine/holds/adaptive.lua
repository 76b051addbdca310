--[[
  Requests in flight, with an estimated number of slots. Twin of adaptive.ts and concurrency.ts: change all or none.
  Comes after in-flight.lua.
  limit    { ttl (ms), holder (0: anonymous), minimum and maximum of slots, window (ms), 1 if only failures lower it }
  state    { the numbers of an estimate …, the holds as in in-flight.lua … }, or nil for a new counter
  now_ms   may run backwards: nothing expires then
  hits     slots; 0 peeks, a negative number releases; -100 or less: releases all of the holder, with this HTTP status
  charge   false: returns the outcome, but leaves the counter unchanged
           'regardless': takes slots even beyond the limit
  Returns  accepted, state, ttl (ms), report: { slots, baseline (µs), hold time (µs), the place of the move, the report of
             in-flight.lua … }
]]
local adaptive, adaptive_refund
do
  local TTL, HOLDER, MIN, MAX, WINDOW, IS_AIMD = 1, 2, 3, 4, 5, 6
  local LIMIT, BASELINE, START, LAST, COUNT, SUM, FAILURES, PEAK = 1, 2, 3, 4, 5, 6, 7, 8
  local LATENCY, LIMIT_BEFORE, AGE, RESUME, FALLS, STARTING, MOVE = 9, 10, 11, 12, 13, 14, 15
  local SIZE = 15
  local GROWN, UNUSED, QUEUEING, FAILED, FAILING, PROBING, PROBED, IDLE = 1, 2, 3, 4, 5, 6, 7, 8
  local MILLI, MIN_STATUS, HOLD_SIZE = 1000, 100, 3 -- this and the following as in the twins
  local MIN_SAMPLES, IDLE_WINDOWS, REMEMBERED_WINDOWS, MAX_HALVINGS = 16, 10, 100, 10
  local TOLERANCE, START_TOLERANCE, MAX_FAILURES, MAX_FALLS = 1.2, 1.5, 0.05, 3
  local USED_PART, QUEUED_PART, PROBED_PART, FASTER_PART, MAX_AGE = 0.9, 0.7, 0.8, 0.75, 30

  local function new_estimate(limit, now_ms)
    return { limit[MIN] * MILLI, 0, now_ms, now_ms, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0 }
  end

  local function bounded(limit, slots)
    return math.min(math.max(math.floor(slots), limit[MIN] * MILLI), limit[MAX] * MILLI)
  end

  local function slots_of(estimate)
    return math.floor(estimate[LIMIT] / MILLI)
  end

  local function restart(estimate, now_ms)
    estimate[COUNT], estimate[SUM], estimate[FAILURES], estimate[PEAK] = 0, 0, 0, 0
    estimate[START], estimate[LAST] = now_ms, now_ms
  end

  local function headroom(slots)
    return math.sqrt(slots * MILLI)
  end

  local function follow(slots, baseline, latency)
    return math.max((TOLERANCE * baseline) / latency, 0.5) * slots + headroom(slots)
  end

  local function fall(estimate, failed)
    local whole = math.max(estimate[LIMIT], estimate[RESUME])
    estimate[RESUME] = 0
    if estimate[FALLS] >= MAX_FALLS then
      estimate[LIMIT], estimate[MOVE] = whole, FAILING
      return
    end
    estimate[LIMIT], estimate[MOVE] = whole * math.max(0.5, 1 - failed), FAILED
    estimate[FALLS], estimate[STARTING], estimate[LIMIT_BEFORE] = estimate[FALLS] + 1, 1, 0
  end

  local function grow(estimate, is_used)
    if not is_used then
      estimate[MOVE] = UNUSED
      return
    end
    local slots = estimate[LIMIT]
    local step = estimate[STARTING] == 1 and slots or math.max(headroom(slots), slots / 4)
    estimate[LIMIT], estimate[MOVE] = slots + step, GROWN
  end

  local function start_probe(estimate)
    estimate[RESUME], estimate[LIMIT] = estimate[LIMIT], estimate[LIMIT] / 2
    estimate[AGE], estimate[STARTING], estimate[MOVE] = 0, 0, PROBING
  end

  local function end_probe(limit, estimate, latency)
    local slots = estimate[LIMIT]
    local fell = estimate[LATENCY] / latency
    estimate[BASELINE] = latency
    if slots > limit[MIN] * MILLI and fell > 1 + QUEUED_PART * (estimate[LIMIT_BEFORE] / slots - 1) then
      estimate[LIMIT], estimate[RESUME], estimate[MOVE] = slots / 2, math.floor(estimate[RESUME] / 2), PROBING
      return
    end
    estimate[LIMIT] = math.min(follow(estimate[RESUME], latency, estimate[LATENCY]), estimate[RESUME])
    estimate[RESUME], estimate[AGE], estimate[MOVE] = 0, 0, PROBED
  end

  local function next_baseline(baseline, latency, is_used)
    if baseline == 0 then
      return latency
    elseif latency < baseline then
      return math.floor((baseline + latency) / 2)
    end
    return is_used and baseline or math.floor((7 * baseline + latency) / 8)
  end

  local function climb(estimate, latency, is_used)
    local slots, is_starting = estimate[LIMIT], estimate[STARTING] == 1
    local is_faster = latency < FASTER_PART * estimate[BASELINE]
    local baseline = next_baseline(estimate[BASELINE], latency, is_used)
    estimate[BASELINE], estimate[AGE] = baseline, latency <= baseline and 0 or estimate[AGE] + 1
    local moved = follow(slots, baseline, latency)
    local is_other = moved < PROBED_PART * slots or is_faster
    if is_starting then
      is_other = latency > START_TOLERANCE * baseline
    end
    if is_used and (is_other or estimate[AGE] >= MAX_AGE) then
      start_probe(estimate)
    elseif is_starting or latency <= TOLERANCE * baseline then
      grow(estimate, is_used)
    elseif moved > slots and not is_used then
      estimate[MOVE] = UNUSED
    else
      estimate[LIMIT], estimate[MOVE] = moved, moved < slots and QUEUEING or GROWN
    end
  end

  local function adapt(limit, estimate)
    local count, failures, slots = estimate[COUNT], estimate[FAILURES], estimate[LIMIT]
    local failed = failures / (count + failures)
    if failed > MAX_FAILURES then
      return fall(estimate, failed)
    end
    local latency = math.max(math.floor((estimate[SUM] * 1000) / count), 1)
    local is_used = estimate[PEAK] >= USED_PART * slots_of(estimate)
    if limit[IS_AIMD] == 1 then
      grow(estimate, is_used)
    elseif estimate[RESUME] > 0 then
      end_probe(limit, estimate, latency)
    else
      climb(estimate, latency, is_used)
    end
    estimate[LATENCY], estimate[LIMIT_BEFORE], estimate[FALLS] = latency, is_used and slots or 0, 0
  end

  -- Changes the estimate, a copy of the stored one.
  local function advance(limit, estimate, now_ms, is_unused)
    estimate[LIMIT] = bounded(limit, estimate[LIMIT])
    local gap_ms = now_ms - estimate[LAST]
    local idle = is_unused and math.floor(gap_ms / (IDLE_WINDOWS * limit[WINDOW])) or 0
    if idle > 0 then
      local whole = math.max(estimate[LIMIT], estimate[RESUME])
      estimate[LIMIT] = bounded(limit, whole / 2 ^ math.min(idle, MAX_HALVINGS))
      estimate[RESUME], estimate[LIMIT_BEFORE], estimate[STARTING], estimate[MOVE] = 0, 0, 1, IDLE
      return restart(estimate, now_ms)
    end
    local length_ms = math.max(limit[WINDOW], math.floor(estimate[BASELINE] / 250))
    if gap_ms > 2 * length_ms or now_ms < estimate[START] then
      return restart(estimate, now_ms)
    end
    local samples = estimate[COUNT] + estimate[FAILURES]
    local is_round = estimate[STARTING] == 1 and samples >= 2 * slots_of(estimate)
    if samples < MIN_SAMPLES or (now_ms - estimate[START] < length_ms and not is_round) then
      return
    end
    adapt(limit, estimate)
    estimate[LIMIT] = bounded(limit, estimate[LIMIT])
    restart(estimate, now_ms)
  end

  local function note_release(estimate, now_ms, taken_ms, status)
    estimate[LAST] = now_ms
    if not taken_ms or taken_ms < estimate[START] or (status >= 400 and status < 500) then
      return
    elseif status >= 500 then
      estimate[FAILURES] = estimate[FAILURES] + 1
      return
    end
    estimate[COUNT], estimate[SUM] = estimate[COUNT] + 1, estimate[SUM] + math.max(now_ms - taken_ms, 0)
  end

  local function slice(numbers, first)
    local part = {}
    for i = first, #numbers do
      part[i - first + 1] = numbers[i]
    end
    return part
  end

  -- Prepares a state for all steps of the script.
  local function open(limit, state, now_ms)
    if state and (state.estimate or state.opened) then
      return state.opened or state
    end
    local is_new = not state or #state == 0
    local opened = { estimate = is_new and new_estimate(limit, now_ms) or state, is_new = is_new }
    opened.holds = is_new and {} or slice(state, SIZE + 1)
    opened.lists = is_new and {} or { { unpack(state, 1, SIZE) }, opened.holds }
    if state then
      state.opened = opened
    end
    return opened
  end

  -- A copy of the estimate, at this time.
  local function read(limit, opened, now_ms)
    local holds = opened.holds
    local last_ms = #holds >= (holds.first or 1) and holds[#holds] or 0
    local is_forgotten = opened.estimate[LAST] + REMEMBERED_WINDOWS * limit[WINDOW] <= now_ms
      and last_ms + limit[TTL] <= now_ms
    local estimate = is_forgotten and new_estimate(limit, now_ms) or { unpack(opened.estimate, 1, SIZE) }
    advance(limit, estimate, now_ms, last_ms <= now_ms)
    return estimate
  end

  local function taken_at_ms(limit, holds, now_ms)
    if limit[HOLDER] == 0 then
      return nil
    end
    for i = holds.live or 1, #holds, HOLD_SIZE do
      if holds[i] == limit[HOLDER] and holds[i + 2] > now_ms then
        return holds[i + 2] - limit[TTL]
      end
    end
    return nil
  end

  local function result_of(limit, estimate, accepted, holds, ttl_ms, inner)
    local report = { slots_of(estimate), estimate[BASELINE], estimate[LATENCY], estimate[MOVE] }
    for i = 1, #inner do
      report[4 + i] = inner[i]
    end
    local state = { estimate = estimate, holds = holds, lists = { estimate, holds } }
    return accepted, state, math.max(ttl_ms, REMEMBERED_WINDOWS * limit[WINDOW]), report
  end

  adaptive = function(limit, state, now_ms, hits, charge)
    local opened = open(limit, state, now_ms)
    local estimate = read(limit, opened, now_ms)
    local status = hits <= -MIN_STATUS and -hits or 0
    local taken_ms = hits < 0 and taken_at_ms(limit, opened.holds, now_ms) or nil
    local asked = hits
    if status > 0 then
      asked = limit[HOLDER] == 0 and -1 or -MAX_COUNT
    end
    local numbers = { slots_of(estimate), limit[TTL], limit[HOLDER] }
    local accepted, holds, ttl_ms, inner = in_flight(numbers, opened.holds, now_ms, asked, charge)
    if charge and hits < 0 then
      note_release(estimate, now_ms, taken_ms, status)
    elseif charge and hits > 0 then
      local held = math.min(accepted and inner[2] or inner[1] + hits, limit[MAX])
      estimate[PEAK], estimate[LAST] = math.max(estimate[PEAK], held), now_ms
    end
    local _, next_state, next_ttl_ms, report = result_of(limit, estimate, accepted, holds, ttl_ms, inner)
    if charge and hits ~= 0 then
      return accepted, next_state, next_ttl_ms, report
    end
    return accepted, opened, opened.is_new and 0 or next_ttl_ms, report
  end

  adaptive_refund = function(limit, state, now_ms, hits, charged_at_ms)
    local opened = open(limit, state, now_ms)
    local estimate = read(limit, opened, now_ms)
    local numbers = { slots_of(estimate), limit[TTL], limit[HOLDER] }
    local accepted, holds, ttl_ms, inner = in_flight_refund(numbers, opened.holds, now_ms, hits, charged_at_ms)
    return result_of(limit, estimate, accepted, holds, ttl_ms, inner)
  end
end
