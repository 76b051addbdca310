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

local algorithm = { step = sliding_window_log, refund = sliding_window_log_refund, stateLength = 0, reserves = false }
local math_min, math_floor, math_max = math.min, math.floor, math.max
local call = redis.call
local pack = struct.pack
local formats = {}
local function formatOf(count)
    local format = formats[count + 1]
    if format == nil then
        format = "<" .. string.rep("d", count)
        formats[count + 1] = format
    end
    return format
end
local function packNumbers(numbers)
    local from = numbers.dropped or 0
    local to = #numbers
    local lists = numbers.before
    local before = ""
    if lists ~= nil then
        local count = #lists
        for at = 0, count - 1 do
            before = before .. packNumbers(lists[at + 1])
        end
    end
    if to == from + 2 then
        return before .. pack("<dd", numbers[to - 1], numbers[to])
    end
    if to - from <= 128 then
        return before .. pack(
            formatOf(to - from),
            unpack(numbers, from + 1, to)
        )
    end
    local parts = {before}
    for first = from, to - 1, 128 do
        local last = math_min(first + 128, to)
        parts[#parts + 1] = pack(
            formatOf(last - first),
            unpack(numbers, first + 1, last)
        )
    end
    return table.concat(parts)
end
local function unpackNumbers(packed)
    local count = math_floor(#packed / 8)
    if count == 2 then
        local first, second = struct.unpack("<dd", packed)
        return {first, second}
    end
    if count <= 128 then
        local numbers = {struct.unpack(
            formatOf(count),
            packed
        )}
        numbers[count + 1] = nil
        return numbers
    end
    local numbers = {}
    for first = 0, count - 1, 128 do
        local size = math_min(128, count - first)
        local part = {struct.unpack(
            formatOf(size),
            packed,
            first * 8 + 1
        )}
        for at = 0, size - 1 do
            numbers[first + at + 1] = part[at + 1] or 0
        end
    end
    return numbers
end
local function serverMs()
    local time = call("TIME")
    return (tonumber(time[1]) or 0) * 1000 + math_floor((tonumber(time[2]) or 0) / 1000)
end
local function unpackState(packed, length)
    if packed == false or packed == "" or length > 0 and #packed ~= 8 * length then
        return nil
    end
    if #packed % 8 ~= 0 then
        return nil
    end
    local state = unpackNumbers(packed)
    local checked = #state < 16 and #state or 16
    for at = 0, checked - 1 do
        local number = state[at + 1] or 0
        if number % 1 ~= 0 or number > 9007199254740991 or number < -9007199254740991 then
            return nil
        end
    end
    return state
end
local function addUsage(usageKey, nowMs, key, hits)
    local hour = string.format(
        "%d|",
        math_floor(nowMs / 3600000)
    )
    local sum = redis.pcall("HINCRBY", usageKey, hour .. key, hits)
    if sum == hits and call("HLEN", usageKey) > 500000 then
        call("HDEL", usageKey, hour .. key)
        redis.pcall("HINCRBY", usageKey, hour, hits)
    end
end
local function windowLeftMs(limit, nowMs)
    local next_accepted, next_state, next_ttlMs, next_report = limit.algorithm.step(
        limit.numbers,
        nil,
        nowMs,
        1,
        true
    )
    return next_ttlMs
end
local function readCount(key, text, limit, nowMs, isSpent)
    local isCount = #text <= 20 and string.match(text, "^%-?%d+$") ~= nil
    if not isCount then
        return nil
    end
    local count = math_min(
        math_max(
            tonumber(text) or 0,
            0
        ),
        9007199254740991
    )
    local numbers = limit.numbers
    if isSpent and count < (numbers[1] or 0) then
        local startMs = limit.startMs
        if startMs == nil then
            startMs = limit.algorithm.startBefore(
                numbers,
                nowMs + windowLeftMs(limit, nowMs)
            )
            limit.startMs = startMs
        end
        if nowMs - startMs >= 100 then
            return {startMs, count}
        end
    end
    local leftMs = call("PTTL", key)
    if leftMs <= 0 then
        local endMs = nowMs + windowLeftMs(limit, nowMs)
        if leftMs == -1 then
            call(
                "PEXPIREAT",
                key,
                string.format("%.0f", endMs)
            )
        elseif serverMs() < endMs then
            return nil
        end
        leftMs = endMs - nowMs
    end
    return {
        limit.algorithm.startBefore(numbers, nowMs + leftMs),
        count
    }
end
local function readState(key, stored, limit, nowMs, isSpent)
    if stored ~= false and limit.algorithm.countsWindow then
        return readCount(
            key,
            stored,
            limit,
            nowMs,
            isSpent
        )
    end
    return unpackState(stored, limit.algorithm.stateLength)
end
local function writeCount(key, before, state, nowMs, ttlMs)
    local text = string.format("%.0f", state[2] or 0)
    if before ~= nil and (before[1] == state[1] or state[2] == 0) then
        call("SET", key, text, "KEEPTTL")
    elseif ttlMs > 0 then
        call(
            "SET",
            key,
            text,
            "PXAT",
            string.format("%.0f", nowMs + ttlMs)
        )
    else
        return false
    end
    return text
end
local function writeState(key, stored, before, state, packed, limit, nowMs, ttlMs)
    if limit.algorithm.countsWindow then
        return writeCount(
            key,
            before,
            state,
            nowMs,
            ttlMs
        )
    end
    if ttlMs > 0 then
        call(
            "SET",
            key,
            packed,
            "PX",
            ttlMs
        )
        return packed
    end
    if stored ~= false then
        call("DEL", key)
    end
    return false
end
local function run()
    local key = KEYS[1] or ""
    local nowMs = serverMs()
    local numbers = unpackNumbers(ARGV[1] or "")
    local hits = table.remove(numbers) or 0
    local ____redis_call_result__1_0 = redis.call("MGET", key)[1]
    if ____redis_call_result__1_0 == nil then
        ____redis_call_result__1_0 = false
    end
    local stored = ____redis_call_result__1_0
    local limit = {algorithm = algorithm, numbers = numbers}
    local before = readState(
        key,
        stored,
        limit,
        nowMs,
        true
    )
    local next_accepted, next_state, next_ttlMs, next_report = algorithm.step(
        numbers,
        before,
        nowMs,
        hits,
        true
    )
    local packed = packNumbers(next_state)
    writeState(
        key,
        stored,
        before,
        next_state,
        packed,
        limit,
        nowMs,
        next_ttlMs
    )
    local usageKey = KEYS[2]
    if usageKey ~= nil and next_accepted then
        addUsage(usageKey, nowMs, key, hits)
    end
    local report = next_report == nil and packed or packNumbers(next_report)
    return struct.pack("<ddd", nowMs, next_accepted and 3 or 2, #report / 8) .. report
end

return run()