--[[
  Requests in flight, with an estimated number of slots. Twin of adaptive.ts and concurrency.ts: change all or none.
  Comes after in-flight.lua.
  limit    { ttl (ms), holder (0: anonymous), minimum and maximum of slots, window (ms), 1 if only failures lower it,
           part of the slots that the request may use (percent), HTTP status of a release (0: none), with which it
           releases all slots of the holder; if children share them: what slot-share.lua calls sharing, with parts of
           the maximum }
  state    { the numbers of an estimate …, the holds as in in-flight.lua … }, or nil for a new counter
  now_ms   may run backwards: nothing expires then
  hits     slots; 0 peeks, a negative number releases
  charge   false: returns the outcome, but leaves the counter unchanged
           'regardless': takes slots even beyond the limit
  Returns  accepted, state, ttl (ms), report: { slots, baseline (µs), hold time (µs), the place of the move, the report of
             in-flight.lua … }
]]
local adaptive, adaptive_refund
do
  local TTL, HOLDER, MIN, MAX, WINDOW, IS_AIMD, THRESHOLD, STATUS = 1, 2, 3, 4, 5, 6, 7, 8
  local LIMIT, BASELINE, START, LAST, COUNT, SUM, FAILURES, PEAK = 1, 2, 3, 4, 5, 6, 7, 8
  local LATENCY, USED_BEFORE, PROBED, AGE, RESUME, FALLS, STARTING, MOVE = 9, 10, 11, 12, 13, 14, 15, 16
  local SIZE = 16
  local GROWN, UNUSED, QUEUEING, FAILED, FAILING, PROBING, MEASURED, IDLE = 1, 2, 3, 4, 5, 6, 7, 8
  local MILLI, SHARING, CEILING = 1000, 8, 5 -- this and the following as in the twins
  local MIN_SAMPLES, PROBE_SAMPLES, IDLE_WINDOWS, REMEMBERED_WINDOWS, MAX_HALVINGS = 16, 64, 10, 100, 10
  local TOLERANCE, START_TOLERANCE, STALL, MAX_FAILURES, MAX_FALLS = 1.2, 1.5, 1.5, 0.05, 3
  local HOLDERS = 2 ^ 53
  local USED_PART, QUEUED_PART, PROBE_PART, FASTER_PART, MAX_AGE, SOON = 0.9, 0.7, 0.4, 0.75, 30, 3

  local function new_estimate(limit, now_ms)
    return { limit[MIN] * MILLI, 0, now_ms, now_ms, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0 }
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

  local function follow(used, baseline, latency)
    return math.max((TOLERANCE * baseline) / latency, 0.5) * used + headroom(used)
  end

  local function queued(more, fewer)
    return 1 + QUEUED_PART * (more / fewer - 1)
  end

  local function fall(estimate, failed)
    local whole = math.max(estimate[LIMIT], estimate[RESUME])
    estimate[RESUME] = 0
    if estimate[FALLS] >= MAX_FALLS then
      estimate[LIMIT], estimate[MOVE] = whole, FAILING
      return
    end
    estimate[LIMIT], estimate[MOVE] = whole * math.max(0.5, 1 - failed), FAILED
    estimate[FALLS], estimate[STARTING], estimate[USED_BEFORE] = estimate[FALLS] + 1, 1, 0
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

  local function end_probe(limit, estimate, latency, used)
    local slots, resume = estimate[LIMIT], estimate[RESUME]
    local fell = estimate[LATENCY] / latency
    estimate[BASELINE] = latency
    local is_stall = fell > STALL * math.max(estimate[USED_BEFORE] / slots, 1)
    if slots > limit[MIN] * MILLI and fell > queued(estimate[USED_BEFORE], slots) and not is_stall then
      estimate[LIMIT], estimate[RESUME], estimate[MOVE] = slots * PROBE_PART, slots, PROBING
      return
    end
    local followed = math.min(follow(estimate[USED_BEFORE], latency, estimate[LATENCY]), resume)
    estimate[LIMIT] = (fell <= TOLERANCE or is_stall) and resume or followed
    estimate[RESUME], estimate[PROBED], estimate[AGE], estimate[MOVE] = 0, used, 0, MEASURED
  end

  local function next_baseline(estimate, latency, is_used, used)
    local baseline = estimate[BASELINE]
    estimate[AGE] = estimate[AGE] + (is_used and 1 or 0)
    if baseline == 0 then
      estimate[BASELINE] = latency
    elseif latency < math.min(baseline, FASTER_PART * math.max(baseline, estimate[LATENCY])) then
      estimate[BASELINE], estimate[PROBED] = latency, used
      estimate[AGE] = math.max(estimate[AGE], MAX_AGE - SOON)
    elseif estimate[STARTING] == 1 then
      estimate[BASELINE] = math.min(baseline, latency)
    elseif not is_used and latency <= START_TOLERANCE * baseline then
      estimate[BASELINE] = math.floor((7 * baseline + latency) / 8)
    end
    return estimate[BASELINE]
  end

  local function climb(estimate, latency, is_used, used)
    local slots, is_starting = estimate[LIMIT], estimate[STARTING] == 1
    local baseline = next_baseline(estimate, latency, is_used, used)
    local is_steady = not is_starting and is_used and estimate[PROBED] > 0
    local most = math.max(START_TOLERANCE, is_steady and queued(used, estimate[PROBED]) or 0)
    if latency > most * baseline or (is_used and estimate[AGE] >= MAX_AGE) then
      estimate[RESUME], estimate[LIMIT] = slots, used * PROBE_PART
      estimate[AGE], estimate[STARTING], estimate[MOVE] = 0, 0, PROBING
    elseif not is_used then
      estimate[MOVE] = UNUSED
    elseif is_starting or latency <= TOLERANCE * baseline then
      grow(estimate, is_used)
    else
      local moved = follow(used, baseline, latency)
      estimate[LIMIT], estimate[MOVE] = moved, moved < slots and QUEUEING or GROWN
    end
  end

  local function adapt(limit, estimate)
    local count, failures, peak = estimate[COUNT], estimate[FAILURES], estimate[PEAK]
    local failed = failures / (count + failures)
    if failed > MAX_FAILURES then
      return fall(estimate, failed)
    end
    local latency = math.max(math.floor((estimate[SUM] * 1000) / count), 1)
    local is_used = peak >= USED_PART * slots_of(estimate)
    local used = is_used and estimate[LIMIT] or math.max(peak, 1) * MILLI
    if limit[IS_AIMD] == 1 then
      grow(estimate, is_used)
    elseif estimate[RESUME] > 0 then
      end_probe(limit, estimate, latency, used)
    else
      climb(estimate, latency, is_used, used)
    end
    estimate[LATENCY], estimate[USED_BEFORE], estimate[FALLS] = latency, used, 0
  end

  -- Changes the estimate, a copy of the stored one.
  local function advance(limit, estimate, now_ms, is_unused)
    estimate[LIMIT] = bounded(limit, estimate[LIMIT])
    local gap_ms = now_ms - estimate[LAST]
    local idle = is_unused and math.floor(gap_ms / (IDLE_WINDOWS * limit[WINDOW])) or 0
    if idle > 0 then
      local whole = math.max(estimate[LIMIT], estimate[RESUME])
      estimate[LIMIT] = bounded(limit, whole / 2 ^ math.min(idle, MAX_HALVINGS))
      estimate[RESUME], estimate[USED_BEFORE], estimate[STARTING], estimate[MOVE] = 0, 0, 1, IDLE
      return restart(estimate, now_ms)
    end
    local length_ms = math.max(limit[WINDOW], math.floor(estimate[BASELINE] / 167))
    if gap_ms > 2 * length_ms or now_ms < estimate[START] then
      return restart(estimate, now_ms)
    end
    local samples = estimate[COUNT] + estimate[FAILURES]
    local is_round = estimate[STARTING] == 1 and samples >= 2 * slots_of(estimate)
    local needed = estimate[RESUME] > 0 and PROBE_SAMPLES or MIN_SAMPLES
    if samples < needed or (now_ms - estimate[START] < length_ms and not is_round) then
      return
    end
    adapt(limit, estimate)
    estimate[LIMIT] = bounded(limit, estimate[LIMIT])
    restart(estimate, now_ms)
  end

  local function failure_weight(estimate, held_ms)
    local usual_ms = estimate[BASELINE] > 0 and estimate[BASELINE] / 1000 or estimate[SUM] / math.max(estimate[COUNT], 1)
    return usual_ms > 0 and math.min(held_ms / usual_ms, 1) or 1
  end

  local function note_release(estimate, now_ms, holder, taken_ms, status)
    estimate[LAST] = now_ms
    if not taken_ms or taken_ms < estimate[START] or (status >= 400 and status < 500) then
      return
    end
    local held_ms = math.max(now_ms - taken_ms, 0)
    if status >= 500 then
      local is_counted = holder < HOLDERS * failure_weight(estimate, held_ms)
      estimate[FAILURES] = estimate[FAILURES] + (is_counted and 1 or 0)
      return
    end
    estimate[COUNT], estimate[SUM] = estimate[COUNT] + 1, estimate[SUM] + held_ms
  end

  local function hold_size(limit)
    return limit[SHARING + 1] and 6 or 3
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
    local last_ms = #holds > (holds.dropped or 0) and holds[#holds - hold_size(limit) + 3] or 0
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
    for i = (holds.live or 0) + 1, #holds, hold_size(limit) do
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

  -- The limit that counts, with a number of slots.
  local function inner_limit(limit, slots)
    if not limit[SHARING + 1] then
      local own = math.max(math.floor((slots * limit[THRESHOLD]) / 100), 1)
      return { own, limit[TTL], limit[HOLDER], -1, 0, 0 }
    end
    local numbers = { slots, limit[TTL], limit[HOLDER], limit[SHARING + 1], limit[SHARING + 2], limit[SHARING + 3] }
    local function part(written)
      return written == 0 and 0 or math.max(math.floor((written * slots) / limit[MAX]), 1)
    end
    for i = SHARING + 4, #limit, 4 do
      local at = #numbers
      numbers[at + 1], numbers[at + 2] = limit[i], part(limit[i + 1])
      numbers[at + 3], numbers[at + 4] = limit[i + 2], part(limit[i + 3])
    end
    return numbers
  end

  adaptive = function(limit, state, now_ms, hits, charge)
    local opened = open(limit, state, now_ms)
    local estimate = read(limit, opened, now_ms)
    local status = limit[STATUS]
    local taken_ms = hits < 0 and taken_at_ms(limit, opened.holds, now_ms) or nil
    local asked = hits
    if status > 0 and hits < 0 then
      asked = limit[HOLDER] == 0 and -1 or -MAX_COUNT
    end
    local slots = slots_of(estimate)
    local numbers = inner_limit(limit, slots)
    local accepted, holds, ttl_ms, inner = in_flight(numbers, opened.holds, now_ms, asked, charge)
    if charge and hits < 0 then
      note_release(estimate, now_ms, limit[HOLDER], taken_ms, status)
    elseif charge and hits > 0 then
      local held = math.min((accepted or inner[7] == CEILING) and inner[2] or math.max(inner[1] + hits, slots), limit[MAX])
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
    local numbers = inner_limit(limit, slots_of(estimate))
    local accepted, holds, ttl_ms, inner = in_flight_refund(numbers, opened.holds, now_ms, hits, charged_at_ms)
    local _, next_state, next_ttl_ms, report = result_of(limit, estimate, accepted, holds, ttl_ms, inner)
    if opened.is_new then -- only an earlier operation of the batch has looked for the counter
      return accepted, opened, 0, report
    end
    return accepted, next_state, next_ttl_ms, report
  end
end
