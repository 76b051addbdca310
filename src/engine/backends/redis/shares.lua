--[[
  Takes a report of a holder of a pool, and returns the share to send to it. Twin of shares.ts: change both or neither.
  KEYS[1]  the state: for each holder its id and nine numbers, separated by spaces
  ARGV     units, fill (ms), burst, ttl (ms), transit (ms), silence (ms), now (ms; 0: the clock of this server),
           holder, requests, elapsed (ms), sent, is confirmed (0 or 1), is resumed (0 or 1), leaves (0 or 1)
  Returns  {} or { number, units, burst }, as texts
]]
local MAX_HOLDERS, FLOOR_PART, RESERVE_PART, CHANGE_PART = 256, 8, 128, 32
local HEADROOM_PERCENT, MIN_ELAPSED_MS = 104, 500
local FIELDS = 10

local units, fill_ms, burst = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local ttl_ms, transit_ms, silence_ms = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local now_ms = tonumber(ARGV[7])
if now_ms == 0 then
  local time = redis.call('TIME')
  now_ms = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end
local id, requests, elapsed_ms = ARGV[8], tonumber(ARGV[9]), tonumber(ARGV[10])
local sent_number, is_confirmed = tonumber(ARGV[11]), ARGV[12] == '1'
local is_resumed, leaves = ARGV[13] == '1', ARGV[14] == '1'

local function whole(number) return string.format('%.0f', number) end

local function is_active(one) return one.reported_at_ms + silence_ms > now_ms end

local function in_force(one, what)
  local now = one.ends_at_ms > now_ms and one[what] or 0
  if one.earlier_ends_at_ms > now_ms then return math.max(now, one['earlier_' .. what]) end
  return now
end

local function load()
  local text = redis.call('GET', KEYS[1])
  local known, fields = {}, {}
  for field in string.gmatch(text or '', '%S+') do
    fields[#fields + 1] = field
    if #fields == FIELDS then
      local one = {
        id = fields[1], demand = tonumber(fields[2]), reported_at_ms = tonumber(fields[3]),
        number = tonumber(fields[4]), units = tonumber(fields[5]), burst = tonumber(fields[6]),
        ends_at_ms = tonumber(fields[7]), earlier_units = tonumber(fields[8]),
        earlier_burst = tonumber(fields[9]), earlier_ends_at_ms = tonumber(fields[10]),
      }
      fields = {}
      if one.ends_at_ms > now_ms or one.earlier_ends_at_ms > now_ms or is_active(one) then known[#known + 1] = one end
    end
  end
  return known
end

local function save(known, share)
  local until_ms, text = now_ms, {}
  for at, one in ipairs(known) do
    until_ms = math.max(until_ms, one.ends_at_ms, one.earlier_ends_at_ms, one.reported_at_ms + silence_ms)
    text[at] = table.concat({
      one.id, whole(one.demand), whole(one.reported_at_ms), whole(one.number), whole(one.units), whole(one.burst),
      whole(one.ends_at_ms), whole(one.earlier_units), whole(one.earlier_burst), whole(one.earlier_ends_at_ms),
    }, ' ')
  end
  if until_ms > now_ms then redis.call('SET', KEYS[1], table.concat(text, ' '), 'PX', whole(until_ms - now_ms))
  else redis.call('DEL', KEYS[1]) end
  if not share then return {} end
  return { whole(share.number), whole(share.units), whole(share.burst) }
end

local function fair_level(total_units, demands)
  table.sort(demands)
  local left, total = total_units, 0
  for at, next in ipairs(demands) do
    local level = math.floor(left / (#demands - at + 1))
    if next > level then return level, 0, total end
    left = left - next
    total = total + next
  end
  return math.huge, left, total
end

local function fair_share(level, left, total, demand)
  if demand > level then return level end
  return demand + math.floor((left * (demand / math.max(total, 1))) / 2)
end

local function reported(holder)
  local is_confirming = is_confirmed and sent_number == holder.number
  if is_confirming or holder.earlier_ends_at_ms <= now_ms then
    holder.earlier_units, holder.earlier_burst, holder.earlier_ends_at_ms = 0, 0, 0
  end
  holder.reported_at_ms = math.max(now_ms, holder.reported_at_ms)
  if elapsed_ms < MIN_ELAPSED_MS then return end
  local newest = math.min(math.floor((requests * fill_ms) / elapsed_ms), 2 * units)
  holder.demand = newest >= holder.demand and newest or math.floor((7 * newest + holder.demand) / 8)
end

local function share_of(holder, others)
  local active = {}
  for _, one in ipairs(others) do if is_active(one) then active[#active + 1] = one end end
  local count = #active + 1
  local floor = math.max(math.floor(units / (FLOOR_PART * count)), 1)
  local most = units - math.floor(units / RESERVE_PART)
  local function wish(one)
    if one.demand < 0 then return units end
    return math.min(math.max(math.ceil((one.demand * HEADROOM_PERCENT) / 100), floor), units)
  end
  local demands = { wish(holder) }
  for _, one in ipairs(active) do demands[#demands + 1] = wish(one) end
  local level, left, total = fair_level(most, demands)
  local target = fair_share(level, left, total, wish(holder))
  local own = in_force(holder, 'units')
  local used_units, used_burst = 0, 0
  for _, other in ipairs(others) do
    used_units = used_units + in_force(other, 'units')
    used_burst = used_burst + in_force(other, 'burst')
  end
  local power = 1
  while power < count do power = power * 2 end
  local new_burst = math.max(math.min(math.floor(burst / power), burst - used_burst), 1)
  if target <= own then return target, target, new_burst end
  local room = math.max((own == 0 and units or most) - used_units - own, 0)
  local missing = { target - own }
  for _, one in ipairs(active) do
    missing[#missing + 1] = math.max(fair_share(level, left, total, wish(one)) - in_force(one, 'units'), 0)
  end
  return target, own + math.min(target - own, (fair_level(room, missing))), new_burst
end

local function must_send(holder, new_units, new_burst)
  if sent_number ~= holder.number or sent_number == 0 then return true end
  if holder.ends_at_ms - transit_ms - now_ms <= ttl_ms / 2 then return true end
  if new_burst ~= holder.burst then return true end
  return math.abs(new_units - holder.units) * CHANGE_PART > math.max(new_units, holder.units)
end

local known = load()
local holder, others = nil, {}
for _, one in ipairs(known) do
  if one.id == id then holder = one else others[#others + 1] = one end
end
if not holder then
  if leaves then return save(known, nil) end
  if #known >= MAX_HOLDERS then return save(known, { number = sent_number, units = 0, burst = 0 }) end
  holder = {
    id = id, demand = -1, reported_at_ms = 0, number = 0, units = 0, burst = 0, ends_at_ms = 0,
    earlier_units = 0, earlier_burst = 0, earlier_ends_at_ms = 0,
  }
end
reported(holder)
if leaves then
  holder.reported_at_ms = 0
  others[#others + 1] = holder
  return save(others, nil)
end
local target, new_units, new_burst = share_of(holder, others)
others[#others + 1] = holder -- the last, as in the twin
local is_waiting = is_resumed and holder.number == 0 and new_units < math.min(target, holder.demand)
if is_waiting or not must_send(holder, new_units, new_burst) then return save(others, nil) end
holder.earlier_units, holder.earlier_burst = in_force(holder, 'units'), in_force(holder, 'burst')
holder.earlier_ends_at_ms = math.max(holder.ends_at_ms, holder.earlier_ends_at_ms)
holder.number, holder.units, holder.burst = holder.number + 1, new_units, new_burst
holder.ends_at_ms = now_ms + ttl_ms + transit_ms
return save(others, holder)
