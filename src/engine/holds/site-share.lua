--[[
  A site's share of a limit. Twin of site-share.ts, with site-share-state.ts: change both or neither.
  limit    { 0 window or 1 bucket, base (hits), rate (token-ms refilled per ms), window (ms; for a bucket one token in
             token-ms), sites, hits in advance, 0 counts, 1 lends or 2 takes; then the index of the other site (from 0),
             the epoch (ms), and if it lends: hits that the other has taken, sites that request hits; if it takes:
             given, sent at, replied at (ms) }
  state    { epoch (ms since the epoch), used (hits, for a bucket token-ms), refilled at, slot (ms), offered (hits) in
             it and in the one before, held over (tokens), then for each site given, confirmed, taken; or none of
             these } or nil for a new counter
  now_ms   may run backwards; the later epoch remains current
  hits     0 peeks, a negative number gives hits back; if it lends, the most to lend
  charge   false: returns the outcome, but leaves the counter unchanged
           'regardless': counts hits that have passed already
  Returns  accepted, state, ttl (ms)
]]
local site_share, site_share_refund
do
  local SLOT_MS, EPOCH_MS, MAX_SKEW_MS = 500, 60000, 1000
  local HEAD, ROW, FLOOR_PART, AHEAD_SLOTS = 7, 3, 16, 2
  local LENDS, TAKES = 1, 2

  local function is_bucket(limit)
    return limit[1] == 1
  end

  local function in_transit(share)
    local sum = 0
    for at = 1, #share.table, ROW do
      sum = sum + math.max(share.table[at] - share.table[at + 1], 0)
    end
    return sum
  end

  local function is_moved(share)
    for at = 1, #share.table do
      if share.table[at] > 0 then
        return true
      end
    end
    return false
  end

  local function room_of(limit, share)
    if is_bucket(limit) then
      return math.floor((limit[2] * limit[4] - share.used) / limit[4])
    end
    local moved = 0
    for at = 1, #share.table, ROW do
      moved = moved + share.table[at + 2] - share.table[at]
    end
    return limit[2] + moved - share.used
  end

  local function refill_to(limit, share, until_ms, kept_tokens)
    if until_ms <= share.at_ms then
      return
    end
    local left = share.used - (until_ms - share.at_ms) * limit[3]
    share.used = math.max(left, kept_tokens * limit[4])
    share.at_ms = until_ms
  end

  -- Refills all but tokens in transit. Those of an earlier epoch remain until no site can take them, whatever its
  -- clock.
  local function refill(limit, share, now_ms, start_ms)
    refill_to(limit, share, math.min(now_ms, share.epoch_ms + MAX_SKEW_MS), in_transit(share) + share.held_over)
    if start_ms > share.epoch_ms then
      local end_ms = share.epoch_ms + EPOCH_MS
      refill_to(limit, share, math.min(now_ms, end_ms), in_transit(share))
      share.held_over = in_transit(share)
      share.table = {}
      refill_to(limit, share, math.min(now_ms, end_ms + MAX_SKEW_MS), share.held_over)
      if start_ms > end_ms then
        share.held_over = 0
      end
      share.epoch_ms = start_ms
    end
    if now_ms >= share.epoch_ms + MAX_SKEW_MS then
      share.held_over = 0
    end
    refill_to(limit, share, now_ms, in_transit(share) + share.held_over)
  end

  local function open_share(limit, state, now_ms)
    local start_ms = now_ms - now_ms % (is_bucket(limit) and EPOCH_MS or limit[4])
    local slot_ms = now_ms - now_ms % SLOT_MS
    if not state or #state < HEAD then
      return { epoch_ms = start_ms, used = 0, at_ms = now_ms, slot_ms = slot_ms, offered = 0, earlier = 0, held_over = 0, table = {} }
    end
    local share = {
      epoch_ms = state[1], used = state[2], at_ms = state[3], slot_ms = state[4],
      offered = state[5], earlier = state[6], held_over = state[7], table = {},
    }
    for at = HEAD + 1, #state do
      share.table[at - HEAD] = state[at]
    end
    if slot_ms > share.slot_ms then
      share.earlier = slot_ms == share.slot_ms + SLOT_MS and share.offered or 0
      share.offered = 0
      share.slot_ms = slot_ms
    end
    if is_bucket(limit) then
      refill(limit, share, now_ms, start_ms)
    elseif start_ms > share.epoch_ms then
      share.epoch_ms, share.used, share.table = start_ms, 0, {}
    end
    return share
  end

  local function least_of(limit, share)
    return is_bucket(limit) and (in_transit(share) + share.held_over) * limit[4] or 0
  end

  local function use(limit, share, hits)
    local unit = is_bucket(limit) and limit[4] or 1
    share.used = math.min(math.max(share.used + hits * unit, least_of(limit, share)), MAX_COUNT)
  end

  local function row_at(limit, share)
    while #share.table < ROW * limit[5] do
      share.table[#share.table + 1] = 0
    end
    return ROW * limit[8] + 1
  end

  local function reserve_of(limit, share, now_ms)
    local floor = math.ceil(limit[2] / FLOOR_PART)
    local demand = math.max(share.offered, share.earlier)
    if not is_bucket(limit) then
      return math.max(floor, math.ceil((demand * (share.epoch_ms + limit[4] - now_ms)) / SLOT_MS))
    end
    return math.max(floor, AHEAD_SLOTS * demand - math.floor((AHEAD_SLOTS * SLOT_MS * limit[3]) / limit[4]))
  end

  local function give(limit, share, row, hits)
    share.table[row] = share.table[row] + hits
    if is_bucket(limit) then
      share.used = share.used + hits * limit[4]
    end
  end

  local function lend(limit, share, now_ms, most)
    if limit[9] ~= share.epoch_ms then
      return false
    end
    local row, rows = row_at(limit, share), share.table
    -- lent before this counter was lost
    give(limit, share, row, math.max(math.min(limit[10] - rows[row], room_of(limit, share)), 0))
    rows[row + 1] = math.min(math.max(rows[row + 1], limit[10]), rows[row])
    local spare = math.floor((room_of(limit, share) - reserve_of(limit, share, now_ms)) / limit[11])
    give(limit, share, row, math.max(math.min(most, spare), 0))
    return true
  end

  local function take(limit, share, now_ms)
    local given, sent_ms, replied_ms = limit[10], limit[11], limit[12]
    local is_in_time = math.abs(replied_ms - sent_ms) <= MAX_SKEW_MS and math.abs(replied_ms - now_ms) <= MAX_SKEW_MS
    if limit[9] ~= share.epoch_ms or not is_in_time then
      return false
    end
    local row, rows = row_at(limit, share), share.table
    local more = math.max(given - rows[row + 2], 0)
    rows[row + 2] = rows[row + 2] + more
    if is_bucket(limit) then
      use(limit, share, -more)
    end
    return true
  end

  local function ttl_of(limit, share, now_ms)
    local slots = share.offered > 0 and 2 or share.earlier > 0 and 1 or 0
    local demand_ms = slots > 0 and share.slot_ms + slots * SLOT_MS - now_ms or 0
    if not is_bucket(limit) then
      local is_used = share.used > 0 or is_moved(share)
      return math.max(is_used and share.epoch_ms + limit[4] - now_ms or 0, demand_ms, 0)
    end
    local full_ms = math.ceil(share.used / limit[3])
    if share.held_over > 0 or is_moved(share) then
      return math.max(share.epoch_ms + EPOCH_MS + MAX_SKEW_MS + full_ms - now_ms, demand_ms, 0)
    end
    return math.max(share.used > 0 and share.at_ms + full_ms - now_ms or 0, demand_ms, 0)
  end

  local function finish(limit, share, now_ms, accepted)
    local state = {
      share.epoch_ms, share.used, share.at_ms, share.slot_ms, share.offered, share.earlier, share.held_over,
    }
    if is_moved(share) then
      for at = 1, #share.table do
        state[HEAD + at] = share.table[at]
      end
    end
    return accepted, state, ttl_of(limit, share, now_ms)
  end

  site_share = function(limit, state, now_ms, hits, charge)
    local share = open_share(limit, state, now_ms)
    if limit[7] == LENDS or limit[7] == TAKES then
      local is_made
      if limit[7] == LENDS then
        is_made = lend(limit, share, now_ms, hits)
      else
        is_made = take(limit, share, now_ms)
      end
      local accepted, after, ttl_ms = finish(limit, share, now_ms, is_made)
      return accepted, is_made and after or state or after, ttl_ms -- another epoch: no change
    end
    local required = hits == 0 and 1 or hits
    local accepted = required < 0 or required <= room_of(limit, share) + limit[6]
    if charge == 'regardless' or (charge and accepted) then
      use(limit, share, hits)
    end
    if charge and hits > 0 then
      share.offered = math.min(share.offered + hits, MAX_COUNT)
    end
    return finish(limit, share, now_ms, accepted)
  end

  site_share_refund = function(limit, state, now_ms, hits, charged_at_ms)
    local share = open_share(limit, state, now_ms)
    if not is_bucket(limit) then
      use(limit, share, charged_at_ms >= share.epoch_ms and -hits or 0)
    else
      local refilled_ms = math.max(share.at_ms - charged_at_ms, 0)
      local back = math.max(hits * limit[4] - refilled_ms * limit[3], 0)
      share.used = math.max(share.used - back, least_of(limit, share))
    end
    return finish(limit, share, now_ms, true)
  end
end
