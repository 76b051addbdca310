--[[
  Sliding window log. Twin of sliding-window-log.ts: change both or neither.
  limit    { capacity (hits), window (ms), refused hits are kept: 1 or 0 }
  state    { time (ms since the epoch), hits at that time, time, hits … }, oldest first, or nil for a new counter
  now_ms   may run backwards; hits then get the time of the last one
  hits     0 peeks, a negative number gives hits back
  charge   false: returns the outcome, but leaves the counter unchanged
           'regardless': counts hits that have passed already
  Returns  accepted, state, ttl (ms), report: { hits in the window before and after, when the last of them leaves it,
             when the requested hits will fit or 0 }
]]
local sliding_window_log, sliding_window_log_refund
do
  local MAX_LOG_HITS = 1000 -- as in the twin

  -- Prepares a log for all steps of the script: `first` is the place of the oldest hits in the window, `used` the sum.
  local function within_window(window_ms, log, now_ms)
    if log and log.used then
      return log
    end
    log = log or {}
    local first, used = 1, 0
    while first <= #log and log[first] + window_ms <= now_ms do
      first = first + 2
    end
    for i = first + 1, #log, 2 do
      used = used + log[i]
    end
    log.first, log.used = first, used
    return log
  end

  local function append(log, now_ms, hits)
    local length = #log
    if length < log.first or log[length - 1] < now_ms then
      log[length + 1], log[length + 2] = now_ms, hits
    else
      log[length] = log[length] + hits
    end
    log.used = log.used + hits
  end

  local function take_newest(log, hits)
    while hits > 0 and #log >= log.first do
      local length = #log
      local newest = log[length]
      if newest > hits then
        log[length] = newest - hits
      else
        log[length], log[length - 1] = nil, nil
      end
      log.used = log.used - math.min(newest, hits)
      hits = hits - newest
    end
  end

  local function take_oldest(log, hits)
    log.used = log.used - math.max(hits, 0)
    while hits > 0 do
      local oldest = log[log.first + 1]
      if oldest > hits then
        log[log.first + 1] = oldest - hits
      else
        log.first = log.first + 2
      end
      hits = hits - oldest
    end
  end

  local function fits_at_ms(log, excess, window_ms)
    if excess <= 0 or excess > log.used then
      return 0
    end
    for i = log.first + 1, #log, 2 do
      excess = excess - log[i]
      if excess <= 0 then
        return log[i - 1] + window_ms
      end
    end
    return 0
  end

  local function result_of(limit, log, now_ms, before, accepted, requested)
    local capacity, window_ms = limit[1], limit[2]
    local empty_at_ms = #log < log.first and now_ms or log[#log - 1] + window_ms
    local report = { before, log.used, empty_at_ms, fits_at_ms(log, log.used + requested - capacity, window_ms) }
    return accepted, log, empty_at_ms - now_ms, report
  end

  sliding_window_log = function(limit, state, now_ms, hits, charge)
    local capacity, window_ms, count_denied = limit[1], limit[2], limit[3] == 1
    local requested = hits == 0 and 1 or hits
    local log = within_window(window_ms, state, now_ms)
    local before = log.used
    local accepted = hits < 0 or before + requested <= capacity
    local counts = charge == 'regardless' or (charge and (accepted or count_denied))
    local most = charge == 'regardless' and MAX_LOG_HITS or math.max(before, capacity)
    local counted = counts and math.min(hits, charge == 'regardless' and MAX_LOG_HITS or capacity) or 0
    if counted > 0 then
      append(log, now_ms, counted)
    end
    if charge and hits < 0 then
      take_newest(log, -hits)
    end
    take_oldest(log, log.used - most)
    return result_of(limit, log, now_ms, before, accepted, requested)
  end

  -- Only hits of exactly that time come back.
  sliding_window_log_refund = function(limit, state, now_ms, hits, charged_at_ms)
    local log = within_window(limit[2], state, now_ms)
    local before = log.used
    for i = log.first, #log, 2 do
      if log[i] == charged_at_ms then
        local taken = math.min(log[i + 1], hits)
        log.used, log[i + 1] = before - taken, log[i + 1] - taken
        if log[i + 1] == 0 then
          table.remove(log, i)
          table.remove(log, i)
        end
        break
      end
    end
    return result_of(limit, log, now_ms, before, true, 1)
  end
end
