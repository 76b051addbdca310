--[[
  Fair shares. Twin of fair-share.ts: change both or neither.
  limit    { rate (per second), capacity (thousandths of a hit), children on the path, thousandths that the hits leave,
             1 if they are not held to the fair share; per child: id, reservation, its capacity, weight, ceiling, its
             capacity }
  nodes    the parent, then each child on the path, 15 numbers each; nil for a new counter. Changed in place if the hits
           are charged
  now_ms   may run backwards; that refills nothing
  hits     0 peeks, a negative number gives hits back
  charge   false: returns the outcome, but leaves the counter unchanged
           'regardless': counts hits that have passed already
  Returns  accepted, nodes, ttl (ms), report (reason, level, wait; spent of the parent; room for the child; its used and
           borrowed hits; its unspent reservation; those of others; ms until the parent is full)
]]
local fair_share, fair_share_refund, fair_share_fields
do
  local NODE_NUMBERS = 15
  local AT, SPENT, CAPPED, FINISH, UNSPENT, PARENT_BORN, BORN = 1, 2, 3, 4, 5, 6, 7
  local VIRTUAL, LATEST, WEIGHT, WEIGHT_BEFORE, RESERVED, RESERVED_BEFORE, USED, BORROWED = 8, 9, 10, 11, 12, 13, 14, 15
  local MILLI, ACTIVE_MS, UNITS_PER_MS, CREDIT_MS, MAX_VIRTUAL = 1000, 1000, 1000000, 250, 2 ^ 52
  local LEVEL_NUMBERS, NEVER = 6, -1
  local floor, ceil, max, min = math.floor, math.ceil, math.max, math.min

  -- More of the nodes on the path; `rates` are those of reservations, and of the parent.
  local rates, held, pays = path.reserve, path.held, path.pays
  local capacities, weights, ceilings, ceiling_capacities = {}, {}, {}, {}
  local is_alone, fills, speeds, credits, starts = {}, {}, {}, {}, {}

  local function bounded(count)
    return min(max(count, 0), MAX_COUNT)
  end

  local function window_of(ms)
    return floor(ms / ACTIVE_MS)
  end

  local function clear(node, parent_born_ms)
    for i = 1, NODE_NUMBERS do
      node[i] = 0
    end
    node[PARENT_BORN] = parent_born_ms
  end

  local function leave(parent, child, weight, at_ms)
    if child[BORN] == 0 then
      return
    end
    local age = window_of(at_ms) - window_of(child[AT])
    if age == 0 then
      parent[WEIGHT] = max(parent[WEIGHT] - weight, 0)
      parent[RESERVED] = max(parent[RESERVED] - child[UNSPENT], 0)
    elseif age == 1 then
      parent[WEIGHT_BEFORE] = max(parent[WEIGHT_BEFORE] - weight, 0)
      parent[RESERVED_BEFORE] = max(parent[RESERVED_BEFORE] - child[UNSPENT], 0)
    end
  end

  local function refresh(node, level, at_ms)
    local before_ms = node[AT]
    local since_ms = max(at_ms - before_ms, 0)
    local spent = max(node[SPENT] - since_ms * rates[level], 0)
    local capped = max(node[CAPPED] - since_ms * ceilings[level], 0)
    local windows = window_of(at_ms) - window_of(before_ms)
    if node[BORN] == 0 or (windows > 1 and spent == 0 and capped == 0) then
      clear(node, node[PARENT_BORN])
      node[BORN], node[AT] = at_ms, at_ms
      return 0
    end
    node[SPENT], node[CAPPED] = spent, capped
    if windows > 0 then
      node[WEIGHT_BEFORE] = windows == 1 and node[WEIGHT] or 0
      node[RESERVED_BEFORE] = windows == 1 and node[RESERVED] or 0
      node[WEIGHT], node[RESERVED], node[USED], node[BORROWED] = 0, 0, 0, 0
    end
    node[AT] = max(at_ms, before_ms)
    return since_ms
  end

  local function fill_of(capacity, spent, kept)
    if capacity > kept then
      return (capacity - spent - kept) / (capacity - kept)
    end
    return spent <= 0 and 1 or 0
  end

  local function find_fill(nodes, level, least)
    local node = nodes[level]
    local own = fill_of(capacities[level], node[SPENT], max(held[level], least))
    if level == 1 then
      return own
    end
    local above = level - 1
    local lag = max(nodes[above][VIRTUAL] - starts[level], 0)
    local fill = credits[above] > 0 and lag / credits[above] or 1
    if is_alone[above] then
      fill = fills[above]
    elseif rates[level] > 0 then
      fill = max(own, fill)
    end
    return ceilings[level] > 0 and min(fill, fill_of(ceiling_capacities[level], node[CAPPED], held[level])) or fill
  end

  local function advance(node, level, since_ms)
    local fill = fills[level]
    if node[LATEST] >= MAX_VIRTUAL then
      node[LATEST], node[VIRTUAL] = 0, 0
    end
    local virtual = node[VIRTUAL]
    local most = max(virtual, node[LATEST] + credits[level])
    if fill >= 1 then
      node[VIRTUAL] = most
    elseif fill > 0 then
      node[VIRTUAL] = min(virtual + floor((since_ms * speeds[level] * fill) / (1 - fill)), most)
    end
  end

  local function open_levels(limit, nodes, now_ms)
    local root = nodes[1]
    local rate, depth, least = limit[1], limit[3], limit[4]
    rates[1], capacities[1], weights[1], ceilings[1], ceiling_capacities[1] = rate, limit[2], 1, 0, 0
    if root[BORN] <= 0 or root[PARENT_BORN] ~= 0 then
      clear(root, 0)
    end
    local at_ms = max(now_ms, root[AT])
    local since_ms = refresh(root, 1, at_ms)
    local per_ms = UNITS_PER_MS
    for parent = 1, depth do
      local level, from = parent + 1, parent * LEVEL_NUMBERS
      local node, child = nodes[parent], nodes[level]
      rates[level], capacities[level], weights[level] = limit[from + 1], limit[from + 2], limit[from + 3]
      ceilings[level], ceiling_capacities[level] = limit[from + 4], limit[from + 5]
      local weight = weights[level]
      if child[BORN] <= 0 or child[PARENT_BORN] ~= node[BORN] then
        clear(child, node[BORN])
      end
      leave(node, child, weight, at_ms)
      local own_since_ms = refresh(child, level, at_ms)
      local sum = node[WEIGHT] + node[WEIGHT_BEFORE] + weight
      held[parent] = node[RESERVED] + node[RESERVED_BEFORE]
      is_alone[parent] = sum <= weight
      speeds[parent] = per_ms / sum
      credits[parent] = floor(speeds[parent] * CREDIT_MS)
      fills[parent] = find_fill(nodes, parent, parent == 1 and least or 0)
      advance(node, parent, since_ms)
      local earliest = node[VIRTUAL] - credits[parent]
      starts[level] = min(max(child[FINISH], earliest), max(node[LATEST], earliest))
      path.is_ahead[level] = not is_alone[parent] and limit[5] ~= 1 and starts[level] > node[VIRTUAL]
      if not is_alone[parent] then
        per_ms = (UNITS_PER_MS * rates[level]) / rate + (per_ms * weight) / sum
      end
      since_ms = own_since_ms
      pays[level] = false
    end
    local last = nodes[depth + 1]
    held[depth + 1] = last[RESERVED] + last[RESERVED_BEFORE]
  end

  -- Measures what is left after the hits that are counted so far.
  local function measure(nodes)
    for level = 1, #nodes do
      local node = nodes[level]
      path.left[level] = capacities[level] - node[SPENT]
      path.ceiling_left[level] = ceilings[level] > 0 and ceiling_capacities[level] - node[CAPPED] or math.huge
    end
  end

  local function find_wait_ms(limit, nodes, hits)
    local rate, capacity, leaf = limit[1], limit[2], limit[3] + 1
    local wanted = hits * MILLI
    local room = path.left[1] - wanted
    local kept = (leaf > 1 and pays[2]) and 0 or max(held[1], limit[4])
    local wait_ms = ceil((kept - room) / rate)
    for level = 2, leaf do
      if path.is_ahead[level] and not pays[level] then
        local ahead = starts[level] - nodes[level - 1][VIRTUAL]
        wait_ms = max(wait_ms, min(ceil(ahead / speeds[level - 1]), ACTIVE_MS))
      end
    end
    if leaf > 1 and rates[leaf] > 0 and wanted <= capacities[leaf] then
      wait_ms = min(wait_ms, max(ceil((wanted - path.left[leaf]) / rates[leaf]), ceil(-room / rate), 0))
    end
    for level = 2, leaf do
      local over = wanted + ((level < leaf and pays[level + 1]) and 0 or held[level]) - path.ceiling_left[level]
      if over > 0 then
        if wanted > ceiling_capacities[level] then
          return NEVER
        end
        wait_ms = max(wait_ms, ceil(over / ceilings[level]))
      end
    end
    return wanted > capacity and NEVER or max(wait_ms, 1)
  end

  local function virtual_cost(hits, rate, weight)
    return min(ceil((hits * UNITS_PER_MS * MILLI) / (rate * weight)), MAX_VIRTUAL)
  end

  local function take(limit, nodes, hits)
    local rate, is_critical = limit[1], limit[5]
    nodes[1][SPENT] = bounded(nodes[1][SPENT] + hits * MILLI)
    for level = 2, limit[3] + 1 do
      local node, parent = nodes[level], level - 1
      if ceilings[level] > 0 then
        node[CAPPED] = bounded(node[CAPPED] + hits * MILLI)
      end
      node[USED] = bounded(node[USED] + hits)
      if pays[level] or (hits < 0 and rates[level] > 0) then
        node[SPENT] = bounded(node[SPENT] + hits * MILLI)
      else
        local is_free = is_alone[parent] or is_critical == 1
        local from = hits < 0 and node[FINISH] or starts[level]
        local cost = (is_free and hits > 0) and 0 or virtual_cost(hits, rate, weights[level])
        local finish = min(max(from + cost, 0), MAX_VIRTUAL)
        node[FINISH] = finish
        node[BORROWED] = bounded(node[BORROWED] + hits)
        nodes[parent][LATEST] = max(nodes[parent][LATEST], finish)
      end
    end
  end

  local function close_levels(limit, nodes)
    for level = 2, limit[3] + 1 do
      local node, parent = nodes[level], nodes[level - 1]
      local unspent = rates[level] > 0 and max(capacities[level] - node[SPENT], 0) or 0
      node[UNSPENT] = unspent
      parent[WEIGHT] = min(parent[WEIGHT] + weights[level], MAX_COUNT)
      parent[RESERVED] = min(parent[RESERVED] + unspent, MAX_COUNT)
    end
  end

  local function ttl_ms(limit, nodes, now_ms)
    local full_ms = 0
    for level = 1, limit[3] + 1 do
      local node = nodes[level]
      if rates[level] > 0 then
        full_ms = max(full_ms, ceil(node[SPENT] / rates[level]))
      end
      if ceilings[level] > 0 then
        full_ms = max(full_ms, ceil(node[CAPPED] / ceilings[level]))
      end
    end
    return 2 * ACTIVE_MS + full_ms + nodes[1][AT] - now_ms
  end

  local function create_report(limit, nodes, reason, at, wait_ms)
    measure(nodes)
    local leaf = limit[3] + 1
    local node, spent = nodes[leaf], nodes[1][SPENT]
    local room, others = find_room(leaf, limit[4]), leaf > 1 and held[1] or 0
    return { reason, at, wait_ms, spent, room, node[USED], node[BORROWED], unspent_of(leaf), others, ceil(spent / limit[1]) }
  end

  local function new_nodes(limit)
    local nodes = {}
    for level = 1, limit[3] + 1 do
      nodes[level] = {}
      clear(nodes[level], 0)
    end
    return nodes
  end

  local function copy_of(nodes)
    local copy = {}
    for level = 1, #nodes do
      copy[level] = { unpack(nodes[level]) }
    end
    return copy
  end

  fair_share = function(limit, nodes, now_ms, hits, charge)
    local counts = charge and hits ~= 0
    local stepped = nodes and (counts and nodes or copy_of(nodes)) or new_nodes(limit)
    open_levels(limit, stepped, now_ms)
    local reason, at, wait_ms = 0, 0, 0
    measure(stepped)
    if hits >= 0 then
      local asked = hits == 0 and 1 or hits
      reason, at = judge(limit[3] + 1, asked * MILLI, limit[4])
      wait_ms = reason ~= 0 and find_wait_ms(limit, stepped, asked) or 0
    end
    local accepted = reason == 0
    if counts and (accepted or charge == 'regardless') then
      take(limit, stepped, hits)
    end
    local report = create_report(limit, stepped, reason, at, wait_ms)
    local ttl = ttl_ms(limit, stepped, now_ms)
    if counts then
      close_levels(limit, stepped)
      return accepted, stepped, ttl, report
    end
    return accepted, nodes or new_nodes(limit), nodes and ttl or 0, report
  end

  fair_share_refund = function(limit, nodes, now_ms, hits, charged_at_ms)
    local stepped = nodes and copy_of(nodes) or new_nodes(limit)
    open_levels(limit, stepped, now_ms)
    local root = stepped[1]
    if root[SPENT] == 0 then
      local report = create_report(limit, stepped, 0, 0, 0)
      return true, nodes or new_nodes(limit), nodes and ttl_ms(limit, stepped, now_ms) or 0, report
    end
    local since_ms = max(root[AT] - charged_at_ms, 0)
    local function back(rate)
      return max(hits * MILLI - since_ms * rate, 0)
    end
    root[SPENT] = bounded(root[SPENT] - back(limit[1]))
    for level = 2, limit[3] + 1 do
      local node = stepped[level]
      node[CAPPED] = bounded(node[CAPPED] - back(ceilings[level]))
      node[SPENT] = bounded(node[SPENT] - back(rates[level]))
      node[USED] = bounded(node[USED] - hits)
    end
    local report = create_report(limit, stepped, 0, 0, 0)
    close_levels(limit, stepped)
    return true, stepped, ttl_ms(limit, stepped, now_ms), report
  end

  -- The names of the nodes on the path: p, and the ids of the children.
  fair_share_fields = function(limit)
    local fields = { 'p' }
    for level = 2, limit[3] + 1 do
      fields[level] = string.format('%.0f', limit[(level - 1) * LEVEL_NUMBERS])
    end
    return fields
  end
end
