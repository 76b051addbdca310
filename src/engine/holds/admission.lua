--[[
  The admission of hits on a shared limit, of a rate or of slots. Twin of admission.ts: change both or neither. Comes
  before the scripts of limits that may be shared. `path` describes the limit, at place 1, and the children on the path
  of the hits; the same tables in each step.
]]
local path = { reserve = {}, left = {}, ceiling_left = {}, held = {}, is_ahead = {}, pays = {} }

-- Returns the reason of a refusal, or 0, and its level. leaf: the place of the last child; least: what the hits leave
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
