--[[
  Fair shares. Twin of fair-share.ts: change both or neither.
  limit    { rate (per second), capacity (thousandths of a hit), children on the path, thousandths that the hits leave,
             1 if they are not held to the fair share; per child: id, reservation, its capacity, weight, ceiling, its
             capacity }
  state    15 numbers of the parent, then of each child on the path, see `NAMES`; nil for a new counter
  now_ms   may run backwards; that refills nothing
  hits     0 peeks, a negative number gives hits back
  charge   false: returns the outcome, but leaves the counter unchanged
           'regardless': counts hits that have passed already
  Returns  accepted, state, ttl (ms), report (reason, level, wait; spent of the parent; room for the child; its used and
           borrowed hits; its unspent reservation; those of others; ms until the parent is full)
]]
local fair_share, fair_share_refund, fair_share_children
do
  local NAMES = { 'at_ms', 'spent', 'capped', 'finish', 'unspent', 'parent_born_ms', 'born_ms', 'virtual', 'latest', 'weight', 'weight_before', 'reserved', 'reserved_before', 'used', 'borrowed' }
  local MILLI, ACTIVE_MS, UNITS_PER_MS, CREDIT_MS, MAX_VIRTUAL = 1000, 1000, 1000000, 250, 2 ^ 52
  local FIRST_LEVEL, LEVEL_NUMBERS, NEVER = 6, 6, -1
  local EMPTY, HELD, PRIORITY, SHARE, CEILING = 1, 2, 3, 4, 5
  local floor_of, ceil, max, min = math.floor, math.ceil, math.max, math.min

  local function bounded(count)
    return min(max(count, 0), MAX_COUNT)
  end

  local function read_node(state, at)
    local node = {}
    for i = 1, #NAMES do
      node[NAMES[i]] = state and state[at + i] or 0
    end
    return node
  end

  local function window_of(ms)
    return floor_of(ms / ACTIVE_MS)
  end

  local function open_level(read, rate, capacity, weight, ceiling, ceiling_capacity, parent_born_ms)
    local node = read
    if read.born_ms <= 0 or read.parent_born_ms ~= parent_born_ms then
      node = read_node(nil, 0)
      node.parent_born_ms = parent_born_ms
    end
    return { node = node, rate = rate, capacity = capacity, weight = weight, ceiling = ceiling, ceiling_capacity = ceiling_capacity, held = 0, is_alone = true, fill = 0, speed = 0, credit = 0, start = 0, pays = false }
  end

  local function leave(parent, child, weight, at_ms)
    local node = parent.node
    if child.born_ms == 0 then
      return
    end
    local age = window_of(at_ms) - window_of(child.at_ms)
    if age == 0 then
      node.weight = max(node.weight - weight, 0)
      node.reserved = max(node.reserved - child.unspent, 0)
    elseif age == 1 then
      node.weight_before = max(node.weight_before - weight, 0)
      node.reserved_before = max(node.reserved_before - child.unspent, 0)
    end
  end

  local function refresh(level, at_ms)
    local node = level.node
    local since_ms = max(at_ms - node.at_ms, 0)
    node.spent = max(node.spent - since_ms * level.rate, 0)
    node.capped = max(node.capped - since_ms * level.ceiling, 0)
    local windows = window_of(at_ms) - window_of(node.at_ms)
    if node.born_ms == 0 or (windows > 1 and node.spent == 0 and node.capped == 0) then
      level.node = read_node(nil, 0)
      level.node.parent_born_ms, level.node.born_ms, level.node.at_ms = node.parent_born_ms, at_ms, at_ms
      return 0
    end
    if windows > 0 then
      node.weight_before = windows == 1 and node.weight or 0
      node.reserved_before = windows == 1 and node.reserved or 0
      node.weight, node.reserved, node.used, node.borrowed = 0, 0, 0, 0
    end
    node.at_ms = max(at_ms, node.at_ms)
    return since_ms
  end

  local function fill_of(capacity, spent, kept)
    if capacity > kept then
      return (capacity - spent - kept) / (capacity - kept)
    end
    return spent <= 0 and 1 or 0
  end

  local function find_fill(level, parent, least)
    local node = level.node
    local own = fill_of(level.capacity, node.spent, max(level.held, least))
    if not parent then
      return own
    end
    local share = parent.credit > 0 and max(parent.node.virtual - level.start, 0) / parent.credit or 1
    local fill = share
    if parent.is_alone then
      fill = parent.fill
    elseif level.rate > 0 then
      fill = max(own, share)
    end
    return level.ceiling > 0 and min(fill, fill_of(level.ceiling_capacity, node.capped, level.held)) or fill
  end

  local function advance(level, since_ms)
    local node, fill = level.node, level.fill
    if node.latest >= MAX_VIRTUAL then
      node.latest, node.virtual = 0, 0
    end
    local most = max(node.virtual, node.latest + level.credit)
    if fill >= 1 then
      node.virtual = most
    elseif fill > 0 then
      node.virtual = min(node.virtual + floor_of((since_ms * level.speed * fill) / (1 - fill)), most)
    end
  end

  local function open_levels(limit, state, now_ms)
    local rate, capacity, depth, least = limit[1], limit[2], limit[3], limit[4]
    local root = open_level(read_node(state, 0), rate, capacity, 1, 0, 0, 0)
    local levels = { root }
    local at_ms = max(now_ms, root.node.at_ms)
    local since_ms = refresh(root, at_ms)
    local per_ms = UNITS_PER_MS
    for at = 1, depth do
      local parent = levels[at]
      local first = FIRST_LEVEL + (at - 1) * LEVEL_NUMBERS
      local level = open_level(read_node(state, at * #NAMES), limit[first + 1], limit[first + 2], limit[first + 3], limit[first + 4], limit[first + 5], parent.node.born_ms)
      leave(parent, level.node, level.weight, at_ms)
      local own_since_ms = refresh(level, at_ms)
      local node = parent.node
      local weights = node.weight + node.weight_before + level.weight
      parent.held = node.reserved + node.reserved_before
      parent.is_alone = weights <= level.weight
      parent.speed = per_ms / weights
      parent.credit = floor_of(parent.speed * CREDIT_MS)
      parent.fill = find_fill(parent, levels[at - 1], at == 1 and least or 0)
      advance(parent, since_ms)
      local earliest = node.virtual - parent.credit
      level.start = min(max(level.node.finish, earliest), max(node.latest, earliest))
      if not parent.is_alone then
        per_ms = (UNITS_PER_MS * level.rate) / rate + (per_ms * level.weight) / weights
      end
      since_ms = own_since_ms
      levels[at + 1] = level
    end
    local last = levels[depth + 1]
    last.held = last.node.reserved + last.node.reserved_before
    return levels
  end

  local function reserved_wait_ms(rate, leaf, room, wanted)
    local short = leaf.node.spent + wanted - leaf.capacity
    return max(ceil(short / leaf.rate), ceil(-room / rate), 0)
  end

  local function judge(limit, levels, hits)
    local rate, capacity, depth, least, is_critical = limit[1], limit[2], limit[3], limit[4], limit[5]
    local root = levels[1]
    local wanted = hits * MILLI
    local is_paid = false
    for at = depth, 1, -1 do
      local level = levels[at + 1]
      is_paid = level.rate > 0 and level.capacity - level.node.spent - wanted >= (is_paid and 0 or level.held)
      level.pays = is_paid
    end
    local room = capacity - root.node.spent - wanted
    local reason, refused_at, wait_ms = 0, 0, 0
    if not is_paid and least > 0 and room < least then
      reason, wait_ms = PRIORITY, ceil((least - room) / rate)
    end
    if not is_paid and root.held > 0 and room < root.held then
      reason, wait_ms = HELD, max(wait_ms, ceil((root.held - room) / rate))
    end
    if room < 0 then
      reason, wait_ms = EMPTY, max(wait_ms, ceil(-room / rate))
    end
    for at = 1, depth do
      local parent, level = levels[at], levels[at + 1]
      local ahead = level.start - parent.node.virtual
      if not (level.pays or parent.is_alone or is_critical == 1 or ahead <= 0) then
        if reason == 0 then
          reason, refused_at = SHARE, at
        end
        wait_ms = max(wait_ms, min(ceil(ahead / parent.speed), ACTIVE_MS))
      end
    end
    local leaf = levels[depth + 1]
    if reason ~= 0 and depth > 0 and leaf.rate > 0 and wanted <= leaf.capacity then
      wait_ms = min(wait_ms, reserved_wait_ms(rate, leaf, room, wanted))
    end
    for at = 1, depth do
      local level = levels[at + 1]
      local kept = (levels[at + 2] and levels[at + 2].pays) and 0 or level.held
      local over = level.node.capped + wanted + kept - level.ceiling_capacity
      if level.ceiling ~= 0 and over > 0 then
        if reason == 0 then
          reason, refused_at = CEILING, at
        end
        wait_ms = wanted > level.ceiling_capacity and math.huge or max(wait_ms, ceil(over / level.ceiling))
      end
    end
    if reason == 0 then
      return 0, 0, 0
    end
    local is_never = wanted > capacity or wait_ms == math.huge
    return reason, refused_at, is_never and NEVER or max(wait_ms, 1)
  end

  local function virtual_cost(hits, rate, weight)
    return min(ceil((hits * UNITS_PER_MS * MILLI) / (rate * weight)), MAX_VIRTUAL)
  end

  local function take(limit, levels, hits)
    local rate, depth, is_critical = limit[1], limit[3], limit[5]
    local root = levels[1]
    root.node.spent = bounded(root.node.spent + hits * MILLI)
    for at = 1, depth do
      local parent, level = levels[at], levels[at + 1]
      local node = level.node
      if level.ceiling > 0 then
        node.capped = bounded(node.capped + hits * MILLI)
      end
      node.used = bounded(node.used + hits)
      if level.pays or (hits < 0 and level.rate > 0) then
        node.spent = bounded(node.spent + hits * MILLI)
      else
        local is_free = parent.is_alone or is_critical == 1
        local from = hits < 0 and node.finish or level.start
        local cost = (is_free and hits > 0) and 0 or virtual_cost(hits, rate, level.weight)
        node.finish = min(max(from + cost, 0), MAX_VIRTUAL)
        node.borrowed = bounded(node.borrowed + hits)
        parent.node.latest = max(parent.node.latest, node.finish)
      end
    end
  end

  local function close_levels(levels)
    for at = 2, #levels do
      local level, parent = levels[at], levels[at - 1].node
      local node = level.node
      node.unspent = level.rate > 0 and max(level.capacity - node.spent, 0) or 0
      parent.weight = min(parent.weight + level.weight, MAX_COUNT)
      parent.reserved = min(parent.reserved + node.unspent, MAX_COUNT)
    end
    local state = {}
    for at = 1, #levels do
      local node = levels[at].node
      for i = 1, #NAMES do
        state[#state + 1] = node[NAMES[i]]
      end
    end
    return state
  end

  local function ttl_ms(levels, now_ms)
    local full_ms = 0
    for at = 1, #levels do
      local level = levels[at]
      if level.rate > 0 then
        full_ms = max(full_ms, ceil(level.node.spent / level.rate))
      end
      if level.ceiling > 0 then
        full_ms = max(full_ms, ceil(level.node.capped / level.ceiling))
      end
    end
    return 2 * ACTIVE_MS + full_ms + levels[1].node.at_ms - now_ms
  end

  local function create_report(limit, levels, reason, at, wait_ms)
    local rate, capacity, depth, least = limit[1], limit[2], limit[3], limit[4]
    local root, leaf = levels[1], levels[depth + 1]
    local left = max(capacity - root.node.spent, 0)
    local borrowable = max(left - max(root.held, least), 0)
    local unspent = depth > 0 and leaf.rate > 0 and max(leaf.capacity - leaf.node.spent, 0) or 0
    local room = min(left, max(unspent, borrowable))
    for place = 1, depth do
      local level = levels[place + 1]
      if level.ceiling > 0 then
        room = min(room, max(level.ceiling_capacity - level.node.capped, 0))
      end
    end
    local full_ms = ceil(root.node.spent / rate)
    local held = depth > 0 and root.held or 0
    return { reason, at, wait_ms, root.node.spent, room, leaf.node.used, leaf.node.borrowed, unspent, held, full_ms }
  end

  local function unchanged(levels, state, now_ms, accepted, report)
    if state then
      return accepted, state, ttl_ms(levels, now_ms), report
    end
    local new = {}
    for i = 1, #levels * #NAMES do
      new[i] = 0
    end
    return accepted, new, 0, report
  end

  fair_share = function(limit, state, now_ms, hits, charge)
    local levels = open_levels(limit, state, now_ms)
    local reason, at, wait_ms = 0, 0, 0
    if hits >= 0 then
      reason, at, wait_ms = judge(limit, levels, hits == 0 and 1 or hits)
    end
    local accepted = reason == 0
    if hits ~= 0 and (charge == 'regardless' or (charge and accepted)) then
      take(limit, levels, hits)
    end
    local report = create_report(limit, levels, reason, at, wait_ms)
    if charge and hits ~= 0 then
      return accepted, close_levels(levels), ttl_ms(levels, now_ms), report
    end
    return unchanged(levels, state, now_ms, accepted, report)
  end

  fair_share_refund = function(limit, state, now_ms, hits, charged_at_ms)
    local levels = open_levels(limit, state, now_ms)
    local root = levels[1]
    if root.node.spent == 0 then
      return unchanged(levels, state, now_ms, true, create_report(limit, levels, 0, 0, 0))
    end
    local since_ms = max(root.node.at_ms - charged_at_ms, 0)
    local function back(rate)
      return max(hits * MILLI - since_ms * rate, 0)
    end
    root.node.spent = bounded(root.node.spent - back(root.rate))
    for at = 2, #levels do
      local level = levels[at]
      local node = level.node
      node.capped = bounded(node.capped - back(level.ceiling))
      node.spent = bounded(node.spent - back(level.rate))
      node.used = bounded(node.used - hits)
    end
    local report = create_report(limit, levels, 0, 0, 0)
    return true, close_levels(levels), ttl_ms(levels, now_ms), report
  end

  -- The ids of the children on the path.
  fair_share_children = function(limit)
    local ids = {}
    for at = 1, limit[3] do
      ids[at] = string.format('%.0f', limit[FIRST_LEVEL + (at - 1) * LEVEL_NUMBERS])
    end
    return ids
  end
end
