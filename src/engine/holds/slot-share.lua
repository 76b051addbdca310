--[[
  The division of slots among children. Twin of slot-share.ts: change both or neither. Comes before in-flight.lua, after
  hold-list.lua. `path` describes the limit, at place 1, and the children on the path; the same tables in each step.
  sharing  { threshold (percent; 0: none), children on the path, percentage left to children that come next, per child:
           id, reservation, weight, ceiling }
  holds    of SIZE numbers: holder, slots, expiry, the children on the path of the request; marks have no slots: minus
           the child, 0, expiry, parent, reservation, 0 if the child is active, or its weight and threshold if it waits
]]
local path = { reserve = {}, left = {}, ceiling_left = {}, held = {}, is_ahead = {}, pays = {} }

-- Returns the reason of a refusal, or 0, and its level. leaf: the place of the last child; least: what the request leaves
local function judge(leaf, wanted, least)
  local EMPTY, HELD, PRIORITY, SHARE, CEILING = 1, 2, 3, 4, 5
  local held, pays = path.held, path.pays
  local is_paid = false
  for level = leaf, 2, -1 do
    is_paid = path.reserve[level] > 0 and path.left[level] - wanted >= (is_paid and 0 or held[level])
    pays[level] = is_paid
  end
  local room = path.left[1] - wanted
  if room < 0 then
    return EMPTY, 0
  elseif not is_paid and room < held[1] then
    return HELD, 0
  elseif not is_paid and room < least then
    return PRIORITY, 0
  end
  for level = 2, leaf do
    if path.is_ahead[level] and not pays[level] then
      return SHARE, level - 1
    end
  end
  for level = 2, leaf do
    local kept = (level < leaf and pays[level + 1]) and 0 or held[level]
    if path.ceiling_left[level] < wanted + kept then
      return CEILING, level - 1
    end
  end
  return 0, 0
end

-- What is left of the reservation of the last child.
local function unspent_of(leaf)
  return leaf > 1 and path.reserve[leaf] > 0 and math.max(path.left[leaf], 0) or 0
end

-- What the last child may still use, without the test of its share.
local function find_room(leaf, least)
  local left = path.left[1]
  local room = math.min(math.max(left, 0), math.max(unspent_of(leaf), left - math.max(path.held[1], least), 0))
  for level = 2, leaf do
    room = math.min(room, math.max(path.ceiling_left[level], 0))
  end
  return room
end

local open_slots, mark_call, report_share, slots_for_threshold
do
  local SIZE, ACTIVE_MS, MAX_WAITING, ALL, WEIGHT, FIRST_CHILD, CHILD_NUMBERS = 6, 1000, 256, 100, 128, 3, 4
  local CEILING = 5
  local floor, max, min = math.floor, math.max, math.min

  slots_for_threshold = function(slots, threshold)
    return max(floor((slots * threshold) / ALL), 1)
  end

  local function spare_slots(slots, percent)
    return percent == 0 and 0 or min(max(floor((slots * percent) / ALL), 1), slots - 1)
  end

  local function used_by(holds, at, parent)
    local used, total = {}, 0
    for i = holds.live, #holds, SIZE do
      local slots = holds[i + 1]
      if slots > 0 and (at == 0 or holds[i + 2 + at] == parent) then
        local child = holds[i + 3 + at] or 0
        used[child] = (used[child] or 0) + slots
        total = total + slots
      end
    end
    return used, total
  end

  local function set_level(level, reserve, ceiling, used)
    path.reserve[level], path.left[level], path.held[level] = reserve, reserve - used, 0
    path.ceiling_left[level] = ceiling > 0 and ceiling - used or math.huge
    path.is_ahead[level], path.pays[level] = false, false
  end

  -- Describes the path in `path`. Returns the place of the last child, what the request must leave, and its slots.
  open_slots = function(slots, sharing, holds, wanted)
    local threshold, depth, spare = sharing[1], sharing[2], sharing[3]
    local _, held = used_by(holds, 0, 0)
    local free = slots - held
    local least = threshold == 0 and 0 or slots - slots_for_threshold(slots, threshold)
    set_level(1, 0, 0, held)
    path.left[1] = free
    local room, whole, parent, own_used, is_next = free, slots, 0, held, false -- for the node, and what it may have
    for at = 0, depth do
      local level, first = at + 1, FIRST_CHILD + at * CHILD_NUMBERS
      local id, reserve, weight, ceiling = 0, 0, 0, 0
      if at < depth then
        id, reserve, weight, ceiling = sharing[first + 1], sharing[first + 2], sharing[first + 3], sharing[first + 4]
      end
      local used = used_by(holds, at, parent)
      local own = used[id] or 0
      local borrowed = max(own - reserve, 0)
      local waiting, weights, all = 0, weight, borrowed -- those that wait, and the sums with the own child
      for i = holds.live, #holds, SIZE do
        if holds[i + 1] == 0 and holds[i + 3] == parent and holds[i] ~= -id then
          local its, reserved, wants = used[-holds[i]] or 0, holds[i + 4], holds[i + 5]
          if wants == 0 then
            path.held[level] = path.held[level] + max(reserved - its, 0)
          elseif held < slots_for_threshold(slots, wants % WEIGHT) then
            waiting = waiting + 1
            weights = weights + floor(wants / WEIGHT)
            all = all + max(its - reserved, 0)
          end
        end
      end
      if at == 0 then
        room = room - max(path.held[1] + (depth > 0 and spare_slots(slots, spare) or 0), least)
      elseif path.reserve[level] > 0 then
        room = max(room, min(free, path.left[level] - path.held[level]))
      end
      room = max(min(room, path.ceiling_left[level] - path.held[level]), 0)
      if at < depth then
        set_level(level + 1, reserve, ceiling, own)
        path.is_ahead[level + 1] = threshold ~= ALL and room - wanted < waiting
          and borrowed * weights >= weight * (all + room)
        if waiting > 0 then
          whole = min(whole, reserve + floor((weight * (all + room)) / weights))
        end
        is_next = is_next or own + wanted <= max(floor(whole / 2), 1)
        if waiting > 0 then
          room = min(room, max(whole - own, 0))
        end
        parent, own_used = id, own
      end
    end
    if depth > 0 and not is_next then
      path.held[1] = path.held[1] + spare_slots(slots, spare)
    end
    return depth + 1, least, own_used
  end

  -- Replaces the child's mark of the same kind.
  local function put_mark(holds, child, parent, reserve, wants, until_ms)
    local count = 0
    for i = holds.live, #holds, SIZE do
      if holds[i + 1] == 0 and (holds[i + 5] > 0) == (wants > 0) then
        count = count + 1
        if holds[i] == -child then
          remove(holds, SIZE, i)
          count = 0
          break
        end
      end
    end
    if wants == 0 or count < MAX_WAITING then
      local place = insert(holds, SIZE, -child, 0, until_ms)
      holds[place + 3], holds[place + 4], holds[place + 5] = parent, reserve, wants
    end
  end

  mark_call = function(holds, sharing, reason, at, now_ms)
    local threshold, depth = sharing[1], sharing[2]
    local first = reason == 0 and depth + 1 or max(at + (reason == CEILING and 1 or 0), 1)
    local parent = 0
    for level = 1, depth do
      local place = FIRST_CHILD + (level - 1) * CHILD_NUMBERS
      local id, reserve, weight = sharing[place + 1], sharing[place + 2], sharing[place + 3]
      if reserve > 0 then
        put_mark(holds, id, parent, reserve, 0, now_ms + ACTIVE_MS)
      end
      if level >= first then
        put_mark(holds, id, parent, reserve, weight * WEIGHT + (threshold == 0 and ALL or threshold), now_ms + ACTIVE_MS)
      end
      parent = id
    end
  end

  report_share = function(slots, sharing, holds, reason, at)
    local leaf, least, used = open_slots(slots, sharing, holds, 1)
    local own, held = leaf > 1 and used or 0, leaf > 1 and path.held[1] or 0
    local borrowed = max(own - (leaf > 1 and path.reserve[leaf] or 0), 0)
    return { reason, at, own, borrowed, unspent_of(leaf), held, find_room(leaf, least) }
  end
end
