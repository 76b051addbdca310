local sliding_window_log, sliding_window_log_refund
do
local math_min = math.min
local finishStep, append, takeNewest, takeOldest, fitsAtMs
function finishStep(limit, log, nowMs, before, accepted, hits)
    local used = log.used
    local last = #log - 2
    local emptyAtMs = last < log.dropped and nowMs or (log[last + 1] or 0) + limit[2]
    local fitsMs = fitsAtMs(log, used + (hits == 0 and 1 or hits) - limit[1], limit[2])
    return accepted, log, emptyAtMs - nowMs, {before, used, emptyAtMs, fitsMs}
end
function append(log, nowMs, hits)
    local length = #log
    if length <= log.dropped or (log[length - 1] or 0) < nowMs then
        log[length + 1] = nowMs
        log[length + 2] = hits
    else
        log[length] = (log[length] or 0) + hits
    end
    log.used = log.used + hits
end
function takeNewest(log, hits)
    local left = hits
    while left > 0 and #log > log.dropped do
        local newest = log[#log] or 0
        if newest > left then
            log[#log] = newest - left
        else
            table.remove(log)
            table.remove(log)
        end
        log.used = log.used - (newest < left and newest or left)
        left = left - newest
    end
end
function takeOldest(log, hits)
    local left = hits
    if left > 0 then
        log.used = log.used - left
    end
    while left > 0 do
        local oldest = log[log.dropped + 2] or 0
        if oldest > left then
            log[log.dropped + 2] = oldest - left
        else
            log.dropped = log.dropped + 2
        end
        left = left - oldest
    end
end
function fitsAtMs(log, excess, windowMs)
    local length = #log
    local left = excess
    if left <= 0 or left > log.used then
        return 0
    end
    for at = log.dropped, length - 1, 2 do
        left = left - (log[at + 2] or 0)
        if left <= 0 then
            return (log[at + 1] or 0) + windowMs
        end
    end
    return 0
end
local function removeAt(list, first, count)
    local length = #list - count
    for at = first, length - 1 do
        list[at + 1] = list[at + count + 1] or 0
    end
    for gone = 0, count - 1 do
        table.remove(list)
    end
end
local function open(limit, list, nowMs)
    local length = #list
    local dropped = 0
    while dropped < length and (list[dropped + 1] or 0) + limit[2] <= nowMs do
        dropped = dropped + 2
    end
    local used = 0
    for at = dropped + 1, length - 1, 2 do
        used = used + (list[at + 1] or 0)
    end
    local log = list
    log.dropped = dropped
    log.used = used
    return log
end
local function step(limit, log, nowMs, hits, charge)
    local capacity = limit[1]
    local before = log.used
    local accepted = hits < 0 or before + (hits == 0 and 1 or hits) <= capacity
    local isRegardless = charge == "regardless"
    local counts = isRegardless or charge and (accepted or limit[3] == 1)
    local counted = counts and math_min(hits, isRegardless and 1000 or capacity) or 0
    if counted > 0 then
        append(log, nowMs, counted)
    end
    if charge and hits < 0 then
        takeNewest(log, -hits)
    end
    takeOldest(log, log.used - (isRegardless and 1000 or (before > capacity and before or capacity)))
    return finishStep(
        limit,
        log,
        nowMs,
        before,
        accepted,
        hits
    )
end
local function refund(limit, log, nowMs, hits, chargedAtMs)
    local before = log.used
    local length = #log
    for at = log.dropped, length - 1, 2 do
        if log[at + 1] == chargedAtMs then
            local taken = math_min(log[at + 2] or 0, hits)
            log.used = before - taken
            log[at + 2] = (log[at + 2] or 0) - taken
            if log[at + 2] == 0 then
                removeAt(log, at, 2)
            end
            break
        end
    end
    return finishStep(
        limit,
        log,
        nowMs,
        before,
        true,
        0
    )
end

sliding_window_log = function(limit, state, now_ms, hits, charge)
  return step(limit, state and state.dropped and state or open(limit, state or {}, now_ms), now_ms, hits, charge)
end
sliding_window_log_refund = function(limit, state, now_ms, hits, charged_at_ms)
  return refund(limit, state and state.dropped and state or open(limit, state or {}, now_ms), now_ms, hits, charged_at_ms)
end
end
