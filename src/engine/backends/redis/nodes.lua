--[[
  The counters of a shared limit are a hash: the limit's own numbers in the field p, those of each child under its id. A
  child that never had children is stored without the numbers of a parent. A step gets the nodes on its path, and changes
  them in place.
]]
local LEAF, NODE = format_of(LEAF_NUMBERS), format_of(NODE_NUMBERS)

-- The numbers of a node; those of a new one are 0. Another program's value is none.
local function unpack_node(packed)
  if packed and #packed == 8 * LEAF_NUMBERS then
    local time, level, guard, paid, claimed_in, used, borrowed = unpack_packed(LEAF, packed)
    if time % 1 == 0 and level % 1 == 0 then
      return { time, level, guard, paid, claimed_in, used, borrowed, 0, 0, 0, 0, 0, 0 }
    end
  end
  return unpack_state(packed, NODE_NUMBERS) or { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
end

-- names: the fields; the first is that of the limit
local function read_nodes(key, names)
  local read = redis.pcall('HMGET', key, unpack(names))
  if read.err then -- another program's value
    call('DEL', key)
    read = {}
  end
  local nodes = {}
  for i = 1, #names do
    nodes[i] = unpack_node(read[i])
  end
  return nodes
end

-- Drops forgotten ones among two children at random for each new one, so that they do not outnumber active ones.
local function sweep_nodes(key, added, before_ms)
  local found = call('HRANDFIELD', key, 2 * added, 'WITHVALUES')
  for i = 1, #found, 2 do
    if found[i] ~= 'p' and unpack_node(found[i + 1])[1] < before_ms then
      call('HDEL', key, found[i])
    end
  end
end

-- Stores the nodes but those that no hit was charged to.
local function write_nodes(key, names, nodes, now_ms, ttl_ms)
  local written, count = {}, 0
  for i = 1, #names do
    local node = nodes[i]
    if node[1] ~= 0 then
      local is_leaf = node[LEAF_NUMBERS + 1] == 0 and names[i] ~= 'p'
      written[count + 1] = names[i]
      written[count + 2] = is_leaf and pack(LEAF, unpack(node, 1, LEAF_NUMBERS)) or pack(NODE, unpack(node))
      count = count + 2
    end
  end
  local added = call('HSET', key, unpack(written))
  if added > 0 then
    sweep_nodes(key, added, now_ms - ttl_ms)
  end
  call('PEXPIRE', key, ttl_ms)
end
