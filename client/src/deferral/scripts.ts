/**
 * The scripts that change lines; each is atomic. Their keys: the set of all lines, scored by the time (ms, of Redis)
 * until which each is closed; the line, scored by arrival; the number of the last arrival; the refusals of each head.
 */
export const scripts = {
  /**
   * Appends the jobs that wait only for their turn: not those in the line already, nor those that have started, whose
   * back-off also makes them delayed jobs, nor those with their own delay.
   * ARGV: line, prefix of job keys, the delay of a job without its own, ids.
   * @returns  the head, if it was appended
   */
  weirArrive: `
    local appended = {}
    for at = 4, #ARGV do
      local id = ARGV[at]
      local is_parked = redis.call('ZSCORE', ARGV[2] .. 'delayed', id)
        and redis.call('HGET', ARGV[2] .. id, 'delay') == ARGV[3]
      if is_parked and not redis.call('ZSCORE', KEYS[2], id) then
        redis.call('ZADD', KEYS[2], redis.call('INCR', KEYS[3]), id)
        redis.call('ZADD', KEYS[1], 'NX', 0, ARGV[1])
        appended[id] = true
      end
    end
    local head = redis.call('ZRANGE', KEYS[2], 0, 0)[1]
    return appended[head or ''] and head or nil`,

  /**
   * A worker has received the job. ARGV: line, id, '1' to put it first instead of last if it is not in the line.
   * @returns  -1: another job is first; 0: it is the job's turn; else the time until its turn, in ms
   */
  weirEnter: `
    local line, id, first = ARGV[1], ARGV[2], ARGV[3] == '1'
    if not redis.call('ZSCORE', KEYS[2], id) then
      local head = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')
      local score = first and head[2] and tonumber(head[2]) - 1 or redis.call('INCR', KEYS[3])
      redis.call('ZADD', KEYS[2], score, id)
      redis.call('ZADD', KEYS[1], 'NX', 0, line)
    end
    if redis.call('ZRANGE', KEYS[2], 0, 0)[1] ~= id then return -1 end
    local time = redis.call('TIME')
    local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
    return math.max(0, tonumber(redis.call('ZSCORE', KEYS[1], line) or 0) - now_ms)`,

  /** Closes the line. ARGV: line, id, ms, time until the refused job could pass in ms, or -1. @returns its refusals */
  weirRefuse: `
    local time = redis.call('TIME')
    local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
    redis.call('ZADD', KEYS[1], 'XX', now_ms + ARGV[3], ARGV[1])
    local past = redis.call('HGET', KEYS[4], ARGV[2]) or '0 0'
    local count, until_ms = string.match(past, '(%d+) (%d+)')
    if tonumber(ARGV[4]) >= 0 and now_ms >= tonumber(until_ms) then
      count = count + 1
      redis.call('HSET', KEYS[4], ARGV[2], string.format('%d %d', count, now_ms + ARGV[4]))
    end
    return tonumber(count)`,

  /** Removes a job. ARGV: line, id. @returns the new head, if it was the head; else nil */
  weirLeave: `
    local head = redis.call('ZRANGE', KEYS[2], 0, 0)[1]
    redis.call('ZREM', KEYS[2], ARGV[2])
    redis.call('HDEL', KEYS[4], ARGV[2])
    local next = redis.call('ZRANGE', KEYS[2], 0, 0)[1]
    if not next then redis.call('ZREM', KEYS[1], ARGV[1]) end
    return head == ARGV[2] and next or nil`,

  /** The first of a line. @returns its id, or nil */
  weirHead: `return redis.call('ZRANGE', KEYS[2], 0, 0)[1]`,

  /** Lines that are open. ARGV: prefix of line keys, offset, count. @returns line, head, line, … */
  weirOpenLines: `
    local time = redis.call('TIME')
    local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
    local found = {}
    for _, line in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], 0, now_ms, 'LIMIT', ARGV[2], ARGV[3])) do
      table.insert(found, line)
      table.insert(found, redis.call('ZRANGE', ARGV[1] .. line, 0, 0)[1] or '')
    end
    return found`,
} as const;
