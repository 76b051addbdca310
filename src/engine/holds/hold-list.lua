--[[
  Lists of holds. Twin of hold-list.ts: change both or neither. Comes before the scripts of limits whose hits have
  holders. Each hold has `size` numbers, of which the first three are its holder, its hits, and when it expires
  (ms since the epoch); sorted by expiry. `holds.live` is the place of the first that counts, and
  `holds.first` that of the first that is stored.
]]

-- The place of a holder's hold. From the third search of a script, only holders that have been seen are searched for.
local function place_of(holds, size, holder)
  holds.searches = (holds.searches or 0) + 1
  if holds.searches > 2 and not holds.seen then
    holds.seen = {}
    for i = holds.live, #holds, size do
      holds.seen[holds[i]] = true
    end
  end
  if holds.seen and not holds.seen[holder] then
    return nil
  end
  for i = holds.live, #holds, size do
    if holds[i] == holder then
      return i
    end
  end
  return nil
end

-- Removes the hold at a place: the fewer of those before and after it move. Others have been dropped.
local function remove(holds, size, place)
  local last = #holds
  if place - holds.live < last - place then
    for i = place - 1, holds.live, -1 do
      holds[i + size] = holds[i]
    end
    holds.live = holds.live + size
    holds.first = holds.live
  else
    for i = place, last do
      holds[i] = holds[i + size]
    end
  end
end

-- Inserts after holds that expire earlier or at the same time. Returns the place.
local function insert(holds, size, holder, hits, until_ms)
  local place = #holds + 1
  while place > holds.live and holds[place - size + 2] > until_ms do
    for i = place - size, place - 1 do
      holds[i + size] = holds[i]
    end
    place = place - size
  end
  holds[place], holds[place + 1], holds[place + 2] = holder, hits, until_ms
  if holds.seen then
    holds.seen[holder] = true
  end
  return place
end
