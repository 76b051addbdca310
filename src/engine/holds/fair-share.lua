--[[
  Fair shares. Twin of fair-share.ts: change both or neither.
  limit    { rate (hits per window), window (ms), capacity (hits times ms), children on the path, what the hits leave to
             higher priorities, 1 if they are not held to the fair share, what the reservations of its children, percentage kept
             for children that come next; per child: id, reservation, weight, ceiling, the reservations of its children }
  nodes    the limit, then each child on the path, 13 numbers each; nil for a new counter. Changed in place if the hits
           are charged
  now_ms   may run backwards; that refills nothing
  hits     0 peeks, a negative number gives hits back
  charge   false: returns the outcome, but leaves the counter unchanged
           'regardless': counts hits that have passed already
  Returns  accepted, nodes, ttl (ms), report (reason, level, the numbers of the nodes)
]]
local fair_share, fair_share_refund, fair_share_fields
do
  local NODE_NUMBERS = 13
  local AT, LEVEL, GUARD, PAID, VIRTUAL, SPEED, OWED, CLAIMS, CLAIMS_BEFORE, CLAIMED_IN, USED, BORROWED, LENT = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13
  local UNITS, MAX_VIRTUAL = 100000000, 2 ^ 52
  local LEAF_PART, INNER_PART, SAVED_HITS, HELD_PART = 0.5, 0.25, 4, 0.5
  local FASTEST, SLOWEST, SATISFIED = 8, 64, 0.6
  local FIRST_LEVEL, LEVEL_NUMBERS, MINUTE_MS, LEAST_RATE = 8, 5, 60000, 0.000001
  local EMPTY, HELD_BACK, PRIORITY, SHARE, CEILING = 1, 2, 3, 4, 5
  local floor, ceil, max, min = math.floor, math.ceil, math.max, math.min

  -- The nodes on the path during a step, by level; the same tables in each step.
  local rate, hit, refill_ms, spare_part
  local reserves, weights, per_ms, capacities, guards, held, spares, is_capped, most_at_once, pays = {}, {}, {}, {}, {}, {}, {}, {}, {}, {}

  local function clear(node)
    for i = 1, NODE_NUMBERS do
      node[i] = 0
    end
  end

  local function forget_ms()
    return MINUTE_MS + 2 * hit + ceil(3 * refill_ms)
  end

  local function spare_of(capacity)
    if spare_part == 0 then
      return 0
    end
    return min(max(hit, floor((capacity * spare_part) / 100)), max(capacity - hit, 0))
  end

  local function held_of(node, reserved, since_ms)
    node[LENT] = max(node[LENT] - since_ms * reserved, 0)
    return max(floor(reserved * refill_ms) - node[LENT], 0)
  end

  local function guard_of(reserve)
    return reserve == 0 and 0 or max(floor(reserve * refill_ms), hit)
  end

  local function fill_of(level, left)
    local kept = held[level] + spares[level]
    if capacities[level] <= kept then
      return 1
    end
    return min(max((left - kept) / (capacities[level] - kept), 0), 1)
  end

  local function advance(node, level, before, got, since_ms)
    local windows = floor(node[AT] / hit) - floor((node[AT] - since_ms) / hit)
    if windows > 0 then
      node[CLAIMS_BEFORE] = windows == 1 and node[CLAIMS] or 0
      node[CLAIMS], node[USED], node[BORROWED] = 0, 0, 0
    end
    local fill = fill_of(level, (before + node[LEVEL]) / 2)
    local haste = min(max(fill / (1 - fill), 1 / SLOWEST), FASTEST)
    local sum = node[CLAIMS] + node[CLAIMS_BEFORE]
    local left = node[OWED] + got
    node[OWED] = sum == 0 and 0 or max(min(left, 0), -floor(capacities[level] / 2))
    local each = sum == 0 and got or max(left, 0) / sum
    local passed = min(floor((haste * each * UNITS) / rate), floor(UNITS * refill_ms), MAX_VIRTUAL)
    node[VIRTUAL] = node[VIRTUAL] + passed < MAX_VIRTUAL and node[VIRTUAL] + passed or 0
    if since_ms == 0 then
      return
    end
    local change = floor((passed - node[SPEED] * since_ms) * min(1 / since_ms, 2 / refill_ms))
    node[SPEED] = min(max(node[SPEED] + change, 1), UNITS)
  end

  local function open_child(limit, nodes, level)
    local parent, node, first = nodes[level - 1], nodes[level], FIRST_LEVEL + (level - 2) * LEVEL_NUMBERS
    local reserve, weight, ceiling = limit[first + 2], limit[first + 3], limit[first + 4]
    local at_ms, virtual = parent[AT], parent[VIRTUAL]
    local share = reserve + (weight * parent[SPEED] * rate) / UNITS
    per_ms[level] = min(share, ceiling > 0 and ceiling or rate, per_ms[level - 1])
    local part = level == #nodes and LEAF_PART or INNER_PART
    if parent[CLAIMS] + parent[CLAIMS_BEFORE] == 0 then
      part = 1
    end
    local most = ceiling > 0 and max(floor(ceiling * refill_ms), hit) or limit[3]
    local capacity = min(floor(per_ms[level] * refill_ms * part) + SAVED_HITS * hit, most)
    local guard = guard_of(reserve)
    if at_ms - node[AT] >= forget_ms() or node[PAID] > virtual then
      clear(node)
      node[AT], node[PAID], node[LEVEL], node[GUARD], node[SPEED] = at_ms, virtual, capacity, guard, UNITS
    end
    local since_ms = max(at_ms - node[AT], 0)
    local per_unit = (weight * rate) / UNITS
    local due = reserve * since_ms + (virtual - node[PAID]) * per_unit
    local got = floor(ceiling > 0 and min(due, ceiling * since_ms) or due)
    local paid = min(node[PAID] + ceil(max(got - reserve * since_ms, 0) / per_unit), virtual)
    node[PAID] = max(paid, virtual - floor(capacity / per_unit), 0)
    local before = min(node[LEVEL], capacity)
    node[LEVEL] = min(node[LEVEL] + got, capacity)
    node[GUARD] = min(node[GUARD] + reserve * since_ms, guard)
    node[AT] = at_ms
    is_capped[level], most_at_once[level] = ceiling > 0 and share > ceiling, most
    reserves[level], weights[level], capacities[level], guards[level] = reserve, weight, capacity, guard
    held[level], spares[level], pays[level] = held_of(node, limit[first + 5], since_ms), spare_of(capacity), false
    advance(node, level, before, got, since_ms)
  end

  local function open_levels(limit, nodes, now_ms)
    rate, hit, spare_part = max(limit[1], LEAST_RATE), limit[2], limit[8]
    refill_ms = limit[3] / max(limit[1], 1)
    local root, capacity = nodes[1], limit[3]
    if root[AT] == 0 then
      clear(root)
      root[AT], root[LEVEL], root[SPEED] = now_ms, capacity, UNITS
    end
    local at_ms = max(now_ms, root[AT])
    local since_ms = at_ms - root[AT]
    local before = root[LEVEL]
    root[LEVEL] = min(before + since_ms * rate, capacity)
    root[AT] = at_ms
    reserves[1], weights[1], per_ms[1], capacities[1], guards[1] = 0, 1, rate, capacity, 0
    held[1] = min(held_of(root, limit[7], since_ms), floor(capacity * HELD_PART))
    spares[1], is_capped[1], pays[1] = spare_of(capacity), false, false
    advance(root, 1, before, since_ms * rate, since_ms)
    for level = 2, #nodes do
      open_child(limit, nodes, level)
    end
  end

  local function is_claiming(node)
    return floor(node[AT] / hit) - node[CLAIMED_IN] <= 1
  end

  -- Returns the reason of a refusal, or 0, its level, and the lowest level that lacks the hits, or 1.
  local function judge_hits(limit, nodes, hits)
    local wanted, leaf, is_critical = hits * hit, #nodes, limit[6] == 1
    local is_paid = false
    for level = leaf, 2, -1 do
      is_paid = reserves[level] > 0 and nodes[level][GUARD] - wanted >= (is_paid and 0 or held[level])
      pays[level] = is_paid
    end
    local is_next, lacking = false, 1
    for level = leaf, 2, -1 do
      if is_critical or lacking > 1 then
        break
      end
      local left = nodes[level][LEVEL] - wanted
      local kept = (level == leaf or is_next) and 0 or spares[level]
      if not pays[level] and left < min(kept, capacities[level] - wanted) then
        lacking = level
      end
      is_next = is_next or (left >= capacities[level] / 2 and not is_claiming(nodes[level]))
    end
    local room = nodes[1][LEVEL] - wanted
    local own = leaf > 1 and max(nodes[2][GUARD], 0) or 0
    local for_others = max(held[1] - own, 0)
    local kept = is_paid and 0 or ((is_next or is_critical) and for_others or for_others + spares[1])
    if room < 0 then
      return EMPTY, 0, lacking
    elseif room < min(kept, capacities[1] - wanted) then
      return HELD_BACK, 0, lacking
    elseif not is_paid and room < limit[5] then
      return PRIORITY, 0, lacking
    end
    for level = 2, leaf do
      if wanted > most_at_once[level] then
        return CEILING, level - 1, 1
      end
    end
    if lacking == 1 then
      return 0, 0, 1
    end
    return is_capped[lacking] and CEILING or SHARE, lacking - 1, lacking
  end

  local function claim_shares(nodes, reason, lacking)
    local is_used_up = reason == EMPTY or reason == HELD_BACK
    for level = is_used_up and #nodes or lacking, 2, -1 do
      local node, parent = nodes[level], nodes[level - 1]
      if is_capped[level] or (not is_used_up and level < lacking and fill_of(level, node[LEVEL]) > SATISFIED) then
        return
      end
      local window = floor(node[AT] / hit)
      if node[CLAIMED_IN] ~= window then
        if node[CLAIMED_IN] == window - 1 then
          parent[CLAIMS_BEFORE] = max(parent[CLAIMS_BEFORE] - weights[level], 0)
        end
        parent[CLAIMS] = min(parent[CLAIMS] + weights[level], MAX_COUNT)
        node[CLAIMED_IN] = window
      end
    end
  end

  local function bounded(level, most)
    return min(max(level, -MAX_COUNT), most)
  end

  local function take(nodes, hits)
    local taken = hits * hit
    nodes[1][LEVEL] = bounded(nodes[1][LEVEL] - taken, capacities[1])
    for level = 2, #nodes do
      local node, parent = nodes[level], nodes[level - 1]
      node[LEVEL] = bounded(node[LEVEL] - taken, capacities[level])
      node[USED] = min(max(node[USED] + hits, 0), MAX_COUNT)
      if not is_claiming(node) then
        parent[OWED] = bounded(parent[OWED] - taken, 0)
      end
      if pays[level] then
        parent[LENT] = min(parent[LENT] + taken, MAX_COUNT)
      end
      if pays[level] or (hits < 0 and reserves[level] > 0) then
        node[GUARD] = bounded(node[GUARD] - taken, guards[level])
      else
        node[BORROWED] = min(max(node[BORROWED] + hits, 0), MAX_COUNT)
      end
    end
  end

  local function ttl_ms(nodes, now_ms)
    local full_ms = 2 * hit + ceil((capacities[1] - nodes[1][LEVEL]) / rate)
    return max(full_ms, forget_ms()) + nodes[1][AT] - now_ms
  end

  local function new_nodes(limit)
    local nodes = {}
    for level = 1, limit[4] + 1 do
      nodes[level] = {}
      clear(nodes[level])
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

  local function finish(limit, before, nodes, now_ms, reason, at, is_kept)
    local report = { reason, at }
    for level = 1, #nodes do
      for i = 1, NODE_NUMBERS do
        report[2 + (level - 1) * NODE_NUMBERS + i] = nodes[level][i]
      end
    end
    if is_kept or before then
      return reason == 0, is_kept and nodes or before, ttl_ms(nodes, now_ms), report
    end
    return reason == 0, new_nodes(limit), 0, report
  end

  fair_share = function(limit, nodes, now_ms, hits, charge)
    local is_kept = charge and hits ~= 0
    local stepped = nodes and (is_kept and nodes or copy_of(nodes)) or new_nodes(limit)
    open_levels(limit, stepped, now_ms)
    local reason, at, lacking = 0, 0, 1
    if hits >= 0 then
      reason, at, lacking = judge_hits(limit, stepped, hits == 0 and 1 or hits)
    end
    if charge and reason ~= 0 then
      claim_shares(stepped, reason, lacking)
    end
    if hits ~= 0 and (charge == 'regardless' or (charge and reason == 0)) then
      take(stepped, hits)
    end
    return finish(limit, nodes, stepped, now_ms, reason, at, is_kept)
  end

  fair_share_refund = function(limit, nodes, now_ms, hits, charged_at_ms)
    local stepped = nodes and copy_of(nodes) or new_nodes(limit)
    open_levels(limit, stepped, now_ms)
    local is_kept = nodes ~= nil and stepped[1][LEVEL] < capacities[1]
    if is_kept then
      local wanted, since_ms = hits * hit, max(stepped[1][AT] - charged_at_ms, 0)
      for level = 1, #stepped do
        local node = stepped[level]
        node[LEVEL] = min(node[LEVEL] + max(wanted - ceil(since_ms * per_ms[level]), 0), capacities[level])
        node[GUARD] = min(node[GUARD] + max(wanted - since_ms * reserves[level], 0), guards[level])
        node[USED] = max(node[USED] - hits, 0)
      end
    end
    return finish(limit, nodes, stepped, now_ms, 0, 0, is_kept)
  end

  -- The names of the nodes on the path: p, and the ids of the children.
  fair_share_fields = function(limit)
    local fields = { 'p' }
    for level = 2, limit[4] + 1 do
      fields[level] = string.format('%.0f', limit[FIRST_LEVEL + (level - 2) * LEVEL_NUMBERS + 1])
    end
    return fields
  end
end
