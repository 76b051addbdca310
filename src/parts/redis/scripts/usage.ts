import { serverMs } from './counters.ts';
import { ARGV, KEYS, redis, tonumber } from './lua.ts';

/** Why a key cannot be used; empty if all can. */
function findProblem(): string {
  const count = KEYS.length;
  for (let at = 0; at < count; at++) {
    const key = KEYS[at] ?? '';
    const kind = redis.call<{ readonly ok: string }>('TYPE', key).ok;
    const expected = at === 0 || at === 2 ? 'hash' : 'list';
    if (kind !== 'none' && kind !== expected) return `WEIR ${key} is a ${kind}, not a ${expected}: delete it`;
  }
  return '';
}

/**
 * Takes usage out of its hash and its log: sets both aside, so that they do not change any more, or deletes what was set
 * aside. Fields of the hash are `<hour>|<counter>`; others begin with #: `#log` is the size of the log, and a batch
 * has more.
 *
 * KEYS     the usage that is being counted: hash, log; the usage that was set aside, if any: hash, log
 * ARGV[1]  the id of the batch: to set aside, if there is none; to delete
 * ARGV[2]  the collector; absent: deletes the batch, if it has the id
 * ARGV[3]  how long the batch of another collector is left alone (ms)
 * Returns  to set aside: the id of the batch and the time since it was set aside (ms), or nil
 */
export function run(): readonly string[] | false {
  const problem = findProblem();
  if (problem !== '') return redis.error_reply(problem);
  const counted = KEYS[0] ?? '';
  const aside = KEYS[2] ?? '';
  const id = ARGV[0] ?? '';
  const collector = ARGV[1];
  const nowMs = serverMs();
  const known = redis.call<readonly (string | false)[]>('HMGET', aside, '#id', '#collector', '#since');
  const knownId = known[0] ?? false;
  if (collector === undefined) {
    if (knownId === id) redis.call('UNLINK', aside, KEYS[3] ?? '');
    return false;
  }
  if (knownId === false) {
    if (redis.call<number>('EXISTS', counted) === 0) return false;
    redis.call('RENAME', counted, aside);
    if (redis.call<number>('EXISTS', KEYS[1] ?? '') === 1) redis.call('RENAME', KEYS[1] ?? '', KEYS[3] ?? '');
    redis.call('HSET', aside, '#id', id, '#collector', collector, '#since', String(nowMs));
    return [id, '0'];
  }
  const ageMs = nowMs - (tonumber(known[2]) ?? 0);
  if (known[1] !== collector && ageMs < (tonumber(ARGV[2]) ?? 0)) return false;
  return [knownId, String(ageMs)];
}
