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

  local function within_window(window_ms, log, now_ms)
    local kept, used = {}, 0
    for i = 1, #log, 2 do
      if log[i] + window_ms > now_ms then
        kept[#kept + 1] = log[i]
        kept[#kept + 1] = log[i + 1]
        used = used + log[i + 1]
      end
    end
    return kept, used
  end

  local function append(log, now_ms, hits)
    local length = #log
    if length == 0 or log[length - 1] < now_ms then
      log[length + 1], log[length + 2] = now_ms, hits
    else
      log[length] = log[length] + hits
    end
  end

  local function take_newest(log, hits)
    while hits > 0 and #log > 0 do
      local length = #log
      local newest = log[length]
      if newest > hits then
        log[length] = newest - hits
      else
        log[length], log[length - 1] = nil, nil
      end
      hits = hits - newest
    end
  end

  local function take_oldest(log, hits)
    local first = 1
    while hits > 0 do
      local oldest = log[first + 1]
      if oldest > hits then
        log[first + 1] = oldest - hits
      else
        first = first + 2
      end
      hits = hits - oldest
    end
    local kept = {}
    for i = first, #log do
      kept[#kept + 1] = log[i]
    end
    return kept
  end

  local function fits_at_ms(log, excess, window_ms)
    for i = 1, #log, 2 do
      if excess <= 0 then
        return 0
      end
      excess = excess - log[i + 1]
      if excess <= 0 then
        return log[i] + window_ms
      end
    end
    return 0
  end

  local function result_of(limit, log, now_ms, before, used, accepted, requested)
    local capacity, window_ms = limit[1], limit[2]
    local empty_at_ms = #log == 0 and now_ms or log[#log - 1] + window_ms
    local report = { before, used, empty_at_ms, fits_at_ms(log, used + requested - capacity, window_ms) }
    return accepted, log, empty_at_ms - now_ms, report
  end

  sliding_window_log = function(limit, state, now_ms, hits, charge)
    local capacity, window_ms, count_denied = limit[1], limit[2], limit[3] == 1
    local requested = hits == 0 and 1 or hits
    local log, used = within_window(window_ms, state or {}, now_ms)
    local before = used
    local accepted = hits < 0 or used + requested <= capacity
    local counts = charge == 'regardless' or (charge and (accepted or count_denied))
    local most = charge == 'regardless' and MAX_LOG_HITS or math.max(before, capacity)
    local counted = counts and math.min(hits, charge == 'regardless' and MAX_LOG_HITS or capacity) or 0
    if counted > 0 then
      append(log, now_ms, counted)
      used = used + counted
    end
    if charge and hits < 0 then
      take_newest(log, -hits)
      used = math.max(used + hits, 0)
    end
    if used > most then
      log, used = take_oldest(log, used - most), most
    end
    return result_of(limit, log, now_ms, before, used, accepted, requested)
  end

  -- Only hits of exactly that time come back.
  sliding_window_log_refund = function(limit, state, now_ms, hits, charged_at_ms)
    local log, used = within_window(limit[2], state or {}, now_ms)
    local before = used
    for i = 1, #log, 2 do
      if log[i] == charged_at_ms then
        local taken = math.min(log[i + 1], hits)
        used, log[i + 1] = used - taken, log[i + 1] - taken
        if log[i + 1] == 0 then
          table.remove(log, i)
          table.remove(log, i)
        end
        break
      end
    end
    return result_of(limit, log, now_ms, before, used, true, 1)
  end
end
