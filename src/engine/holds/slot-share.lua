--[[
  The division of slots among children. Twin of slot-share.ts: change both or neither. Comes before in-flight.lua, after
  hold-list.lua and admission.lua.
  sharing  { threshold (percent; 0: none), children on the path, per child: id, reservation, weight, ceiling }
  holds    of SIZE numbers: holder, slots, expiry, the children on the path of the request; marks have no slots: minus
           the child, 0, expiry, parent, reservation, 0 if the child is active, or its weight and threshold if it waits
]]
local open_slots, mark_call, report_share, slots_for_threshold
do
  local SIZE, ACTIVE_MS, MAX_WAITING, ALL, WEIGHT, CHILD_NUMBERS = 6, 1000, 256, 100, 128, 4
  local CEILING = 5
  local floor, max, min = math.floor, math.max, math.min

  slots_for_threshold = function(slots, threshold)
    return max(floor((slots * threshold) / ALL), 1)
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
    local threshold, depth = sharing[1], sharing[2]
    local _, held = used_by(holds, 0, 0)
    local free = slots - held
    local least = threshold == 0 and 0 or slots - slots_for_threshold(slots, threshold)
    set_level(1, 0, 0, held)
    path.left[1] = free
    local room, parent, own_used = free, 0, held
    for at = 0, depth do
      local level, first = at + 1, 2 + at * CHILD_NUMBERS
      local id, reserve, weight, ceiling = 0, 0, 0, 0
      if at < depth then
        id, reserve, weight, ceiling = sharing[first + 1], sharing[first + 2], sharing[first + 3], sharing[first + 4]
      end
      local used = used_by(holds, at, parent)
      local own = used[id] or 0
      local borrowed = max(own - reserve, 0)
      local waiting, weights, whole = 0, weight, borrowed -- those that wait, and the sums with the own child
      for i = holds.live, #holds, SIZE do
        if holds[i + 1] == 0 and holds[i + 3] == parent and holds[i] ~= -id then
          local its, reserved, wants = used[-holds[i]] or 0, holds[i + 4], holds[i + 5]
          if wants == 0 then
            path.held[level] = path.held[level] + max(reserved - its, 0)
          elseif held < slots_for_threshold(slots, wants % WEIGHT) then
            waiting = waiting + 1
            weights = weights + floor(wants / WEIGHT)
            whole = whole + max(its - reserved, 0)
          end
        end
      end
      if at == 0 then
        room = room - max(path.held[1], least)
      elseif path.reserve[level] > 0 then
        room = max(room, min(free, path.left[level] - path.held[level]))
      end
      room = max(min(room, path.ceiling_left[level] - path.held[level]), 0)
      if at < depth then
        set_level(level + 1, reserve, ceiling, own)
        path.is_ahead[level + 1] = threshold ~= ALL and room - wanted < waiting
          and borrowed * weights >= weight * (whole + room)
        parent, own_used = id, own
      end
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
      local place = 2 + (level - 1) * CHILD_NUMBERS
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
