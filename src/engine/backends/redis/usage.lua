--[[
  Takes usage out of its hash and its log: sets both aside, so that they do not change any more, or deletes what was set
  aside. Fields of the hash are `<hour>|<counter>`; others begin with #: `#log` is the size of the log, and a batch
  has more.

  KEYS     the usage that is being counted: hash, log; the usage that was set aside, if any: hash, log
  ARGV[1]  the id of the batch: to set aside, if there is none; to delete
  ARGV[2]  the collector; absent: deletes the batch, if it has the id
  ARGV[3]  how long the batch of another collector is left alone (ms)
  Returns  to set aside: the id of the batch and the time since it was set aside (ms), or nil
]]
local counted, log, aside, log_aside = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
for i = 1, #KEYS do
  local kind, expected = redis.call('TYPE', KEYS[i]).ok, i % 2 == 1 and 'hash' or 'list'
  if kind ~= 'none' and kind ~= expected then
    return redis.error_reply('WEIR ' .. KEYS[i] .. ' is a ' .. kind .. ', not a ' .. expected .. ': delete it')
  end
end
local time = redis.call('TIME')
local now_ms = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local known = redis.call('HMGET', aside, '#id', '#collector', '#since')
if not ARGV[2] then
  if known[1] == ARGV[1] then
    redis.call('UNLINK', aside, log_aside)
  end
  return false
end
if not known[1] then
  if redis.call('EXISTS', counted) == 0 then
    return false
  end
  redis.call('RENAME', counted, aside)
  if redis.call('EXISTS', log) == 1 then
    redis.call('RENAME', log, log_aside)
  end
  redis.call('HSET', aside, '#id', ARGV[1], '#collector', ARGV[2], '#since', string.format('%.0f', now_ms))
  return { ARGV[1], '0' }
end
local age_ms = now_ms - (tonumber(known[3]) or 0)
if known[2] ~= ARGV[2] and age_ms < tonumber(ARGV[3]) then
  return false
end
return { known[1], string.format('%.0f', age_ms) }
