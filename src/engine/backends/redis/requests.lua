--[[
  The requests of a batch that runs cannot hold, in their order: sets of operations of which all or none are counted, and
  operations other than spends. Every changed counter is written once.

  Each request: how it spends (0 each, 1 all or nothing, 2 spare others), its number of operations, and per operation:
  key (its place in KEYS), limit (its place among the limits; negative if the hits are usage), hits, mode. The mode is
  1 if the operation blocks + 2 * its kind, see KINDS. Kinds after PEEK only appear if each operation spends
  independently; + ALONE, for an operation that is counted even if its request is refused, and + MARKS, for one whose
  own refusal changes its state, only if they do not. REFUND and FORGET have two more numbers: the place in KEYS of the
  time when the counter was reset; the time of the charge (REFUND), or how long the former is kept (FORGET, ms). COUNT
  with negative hits that are usage has three: the first and the last place in a report of the hits that the counter
  holds, and the number that is one hit. Operations on a shared limit, see nodes.lua, end with the place in KEYS of the
  name of their usage, and the ids of the children on their path: as many as levels, 0 for none.

  The counters of an algorithm with a loader are stored in another format: the loader returns their state, how
  long a peek keeps them (ms), how to store them, and an outcome if they cannot be used.

  batch    the dispatcher's input, and its functions that read and store states
  Returns  numbers: for each operation the outcome, the length of the report, the report
]]
local function decide_requests(batch)
  local EACH, SPARE_OTHERS = 0, 2
  -- COUNT: positive hits are spent, negative hits are refunded, 0 peeks
  local KINDS = { COUNT = 0, PEEK = 1, CHARGE = 2, REFUND = 3, FORGET = 4 }
  local ALONE, MARKS = 16, 32
  local LEVELS = 3

  local input, at, limits, stored, now_ms = batch.input, batch.at, batch.limits, batch.stored, batch.now_ms
  local output = {}
  local states, befores = {}, {} -- of all counters: now, and as they were read
  local ttls_ms, last_limits = {}, {} -- of counters that were stepped

  local foreign = {} -- what the loader returned, by counter

  local function load(key, limit)
    if not foreign[key] then
      foreign[key] = limit.algorithm.load(KEYS[key], stored[key], limit.numbers)
      states[key] = foreign[key].state
    end
  end

  local function problem_of(key)
    return foreign[key] and foreign[key].outcome
  end

  local hashes = {} -- of shared limits, by counter: the names of the nodes that are read, and the nodes by their names

  -- The nodes on the path of an operation are to be read. Returns their names.
  local function want_nodes(key)
    local hash = hashes[key] or { names = {}, nodes = {} }
    hashes[key] = hash
    local path = { 'p' }
    for i = 0, LEVELS - 1 do
      path[#path + 1] = input[at + i] ~= 0 and string.format('%.0f', input[at + i]) or nil
    end
    at = at + LEVELS
    for i = 1, #path do
      if hash.nodes[path[i]] == nil then
        hash.nodes[path[i]] = false
        hash.names[#hash.names + 1] = path[i]
      end
    end
    return path
  end

  local function read_operation()
    local key, place, mode = input[at], input[at + 1], input[at + 3]
    local limit, kind = limits[math.abs(place)], math.floor(mode % ALONE / 2)
    local operation = {
      key = key,
      limit = limit,
      hits = input[at + 2],
      kind = kind,
      blocks = mode % 2 == 1,
      alone = mode % MARKS >= ALONE,
      marks = mode >= MARKS,
      is_metered = place < 0,
      usage = key,
      reset = input[at + 4],
      reset_ms = input[at + 5],
    }
    operation.charge = kind == KINDS.COUNT
    operation.gives = operation.is_metered and kind == KINDS.COUNT and operation.hits < 0
    if operation.gives then
      operation.held_at = { input[at + 4], input[at + 5], input[at + 6], input[at + 7] }
    end
    at = at + (operation.gives and 8 or kind >= KINDS.REFUND and 6 or 4)
    if limit.algorithm.has_nodes then
      operation.usage = input[at]
      at = at + 1
      operation.path = want_nodes(key)
    elseif befores[key] == nil and not limit.algorithm.load then
      states[key] = batch.state_of(key, limit)
      befores[key] = states[key] or false
    end
    return operation
  end

  local requests = {}
  while at <= #input do
    local request = { spend = input[at] }
    local count = input[at + 1]
    at = at + 2
    for i = 1, count do
      request[i] = read_operation()
    end
    requests[#requests + 1] = request
  end

  -- Reads the nodes of all operations, of each shared limit in one call.
  for key, hash in pairs(hashes) do
    local nodes = read_nodes(KEYS[key], hash.names)
    for i = 1, #nodes do
      hash.nodes[hash.names[i]] = nodes[i]
    end
  end

  local function state_for(hit)
    if not hit.path then
      return states[hit.key]
    end
    local known, nodes = hashes[hit.key].nodes, {}
    if known.p[1] == 0 then
      return nil
    end
    for i = 1, #hit.path do
      nodes[i] = known[hit.path[i]]
    end
    return nodes
  end

  local function set_state(hit, state)
    if not hit.path then
      states[hit.key] = state
      return
    end
    for i = 1, #hit.path do
      hashes[hit.key].nodes[hit.path[i]] = state[i]
    end
  end

  local function run(hit, hits, charge)
    local accepted, state, ttl_ms, report =
      hit.limit.algorithm.step(hit.limit.numbers, state_for(hit), now_ms, hits, charge)
    return { accepted = accepted, state = state, ttl_ms = ttl_ms, report = report or state }
  end

  -- The hits that the counter holds or lacks, in its unit; nil if nothing is given back.
  local function held_in(hit)
    if not hit.gives then
      return nil
    end
    local report, sum = run(hit, 0, false).report, 0
    for place = hit.held_at[1], hit.held_at[2] do
      sum = sum + (report[place] or 0)
    end
    return math.min(sum, hit.held_at[4])
  end

  -- The hits that a counter has given back of those that it held before. Twin of `givenHits` in usage.ts.
  local function given_hits(hit, before)
    return before and math.ceil(math.abs(before - held_in(hit)) / hit.held_at[3]) or 0
  end

  -- held: what the counter held before
  local function keep(hit, result, held)
    set_state(hit, result.state)
    ttls_ms[hit.key], last_limits[hit.key] = result.ttl_ms, hit.limit
    if hit.is_metered then
      batch.meter(hit.usage, used_hits(hit.limit, hit.hits, result.accepted, result.report, given_hits(hit, held)))
    end
  end

  local function reply(hit, accepted, charged, report)
    output[#output + 1] = problem_of(hit.key) or (accepted and 1 or 0) + (charged and 2 or 0)
    output[#output + 1] = #report
    for i = 1, #report do
      output[#output + 1] = report[i]
    end
  end

  local function spend_all(hits)
    for i = 1, #hits do
      local held = held_in(hits[i])
      local result = run(hits[i], hits[i].hits, hits[i].charge)
      if hits[i].charge then
        keep(hits[i], result, held)
      end
      reply(hits[i], result.accepted, hits[i].charge, result.report)
    end
  end

  -- Resets a counter, and keeps the time of the reset.
  local function forget(hit)
    local key, before, time = hit.key, befores[hit.key], string.format('%.0f', now_ms)
    if before and hit.limit.algorithm.counts_window then
      redis.call('SET', KEYS[key], '0', 'KEEPTTL') -- see write_count
      befores[key] = { before[1], 0 }
    else
      redis.call('DEL', KEYS[key])
      befores[key], stored[key] = false, false
    end
    states[key], ttls_ms[key] = nil, nil
    if hashes[key] then
      for name in pairs(hashes[key].nodes) do
        hashes[key].nodes[name] = unpack_node(false)
      end
    end
    redis.call('SET', KEYS[hit.reset], time, 'PX', hit.reset_ms)
    stored[hit.reset] = time
  end

  -- A charge from before a reset is not part of the current state: none of its hits come back.
  local function refund(hit, state)
    local reset_at_ms = tonumber(stored[hit.reset] or nil)
    local hits = reset_at_ms and hit.reset_ms <= reset_at_ms and 0 or hit.hits
    return hit.limit.algorithm.refund(hit.limit.numbers, state, now_ms, hits, hit.reset_ms)
  end

  local function meter(hit, accepted, report, held)
    if hit.kind == KINDS.REFUND then
      batch.meter(hit.usage, refunded_hits(hit.limit, hit.hits))
    elseif hit.kind == KINDS.COUNT or hit.kind == KINDS.CHARGE then
      local is_used = accepted or hit.kind == KINDS.CHARGE
      batch.meter(hit.usage, used_hits(hit.limit, hit.hits, is_used, report, given_hits(hit, held)))
    end
  end

  -- Returns whether the counter must be written, and the result of the step.
  local function run_kind(hit)
    local kind, numbers, step, state = hit.kind, hit.limit.numbers, hit.limit.algorithm.step, state_for(hit)
    if kind == KINDS.COUNT then
      return true, step(numbers, state, now_ms, hit.hits, true)
    elseif kind == KINDS.CHARGE then
      return true, step(numbers, state, now_ms, hit.hits, 'regardless')
    elseif kind == KINDS.REFUND then
      return state ~= nil, refund(hit, state)
    elseif kind == KINDS.FORGET then
      forget(hit)
      return false, step(numbers, nil, now_ms, 0, false)
    end
    return false, step(numbers, state, now_ms, hit.hits, false)
  end

  local function run_each(hits)
    for i = 1, #hits do
      local hit = hits[i]
      local held = held_in(hit)
      local is_written, accepted, state, ttl_ms, report = run_kind(hit)
      if is_written then
        set_state(hit, state)
        ttls_ms[hit.key], last_limits[hit.key] = ttl_ms, hit.limit
      end
      if hit.is_metered then
        meter(hit, accepted, report, held)
      end
      reply(hit, accepted, is_written, report or state)
    end
  end

  local function copy_hash(hash)
    if not hash then
      return nil
    end
    local copy = { names = hash.names, nodes = {} }
    for name, node in pairs(hash.nodes) do
      copy.nodes[name] = { unpack(node) }
    end
    return copy
  end

  -- Returns which hits would be accepted if all were spent in this order, and whether the request would be refused.
  -- Only counters that are used several times are charged for this, and restored from a copy.
  local function try_all(hits)
    local uses, copies, copied_hashes, accepted, refused = {}, {}, {}, {}, false
    for i = 1, #hits do
      uses[hits[i].key] = (uses[hits[i].key] or 0) + 1
    end
    for i = 1, #hits do
      local hit = hits[i]
      local is_repeated = uses[hit.key] > 1
      if is_repeated and copies[hit.key] == nil then
        copies[hit.key] = states[hit.key] and batch.pack(states[hit.key]) or false
        copied_hashes[hit.key] = copy_hash(hashes[hit.key])
      end
      local result = run(hit, hit.hits, is_repeated and hit.charge)
      if is_repeated then
        set_state(hit, result.state)
      end
      accepted[i] = result.accepted
      refused = refused or problem_of(hit.key) or (hit.blocks and not result.accepted)
    end
    for key, packed in pairs(copies) do
      states[key] = packed and batch.unpack(packed) or nil
      hashes[key] = copied_hashes[key]
    end
    return accepted, refused
  end

  -- Runs a refused request: at most the refusals themselves are counted, and operations that stand alone. Others are
  -- decided for all hits of the request on the counter so far, since these must fit for the same request to pass.
  local function spare(hits, accepted, may_charge)
    local asked = {}
    for i = 1, #hits do
      local hit = hits[i]
      asked[hit.key] = (asked[hit.key] or 0) + (hit.charge and hit.hits or 0)
      local is_accepted = accepted[i]
      local charged = hit.alone
        or ((may_charge or hit.marks) and hit.charge and not is_accepted and not run(hit, hit.hits, false).accepted)
      local decides_alone = not hit.charge and hit.hits > 0 -- a peek for hits
      local held = held_in(hit)
      local result = run(hit, (charged or decides_alone) and hit.hits or asked[hit.key], charged and hit.charge)
      if decides_alone then
        is_accepted = result.accepted
      end
      if charged then
        keep(hit, result, held)
      elseif foreign[hit.key] then
        ttls_ms[hit.key] = foreign[hit.key].ttl_ms
      end
      reply(hit, is_accepted, charged, result.report)
    end
  end

  for i = 1, #requests do
    local hits = requests[i]
    for k = 1, #hits do
      if hits[k].limit.algorithm.load then
        load(hits[k].key, hits[k].limit)
      end
    end
    if hits.spend == EACH then
      run_each(hits)
    else
      local accepted, refused = try_all(hits)
      if refused then
        spare(hits, accepted, hits.spend == SPARE_OTHERS)
      else
        spend_all(hits)
      end
    end
  end

  for key, ttl_ms in pairs(ttls_ms) do
    if foreign[key] then
      foreign[key].keep(states[key], ttl_ms)
    elseif hashes[key] then
      if ttl_ms > 0 then
        local hash, nodes = hashes[key], {}
        for i = 1, #hash.names do
          nodes[i] = hash.nodes[hash.names[i]]
        end
        write_nodes(KEYS[key], hash.names, nodes, now_ms, ttl_ms + batch.grace_ms)
      end
    else
      batch.keep(key, befores[key], states[key], ttl_ms, last_limits[key])
    end
  end
  return output
end
