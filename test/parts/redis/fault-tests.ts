import '../../helpers/realm.ts';
import { fullCapacity } from '../../../src/engine/holds/limits.ts';
import type { Fault } from '../../helpers/faults/fault.ts';
import { faultsOfOneServer } from '../../helpers/faults/of-one-server.ts';
import { faultsOfSeveralServers } from '../../helpers/faults/of-several-servers.ts';
import { suffer } from '../../helpers/faults/suffer.ts';

/**
 * Forty times the timeout of a call, and shorter than the longest fault: a call that takes longer hangs, unless the
 * process itself stood still.
 */
const HANGS_MS = 4_000;

/** Internals that callers must not see: locations of slots, our script's name, options of the Redis client. */
const INTERNALS =
  /MOVED|ASK|TRYAGAIN|CROSSSLOT|NOSCRIPT|redirection|(?<!needs a )script:|user_script|Request limit|OfflineQueue/;

/** One of each kind that takes a few seconds at most: lost counters, lost replies, another master, moving slots. */
const quick = [
  /^Redis restarts/,
  /^connections break in the middle of a reply, ten times$/,
  /^Sentinel: the master is killed$/,
  /key by key$/,
];
export const isQuick = ({ event }: Fault): boolean => quick.some((pattern) => pattern.test(event));

export function testFaults(isAmong: (fault: Fault) => boolean): void {
  test.each([...faultsOfOneServer, ...faultsOfSeveralServers].filter(isAmong))('$event', async (fault) => {
    const { failed, longestMs, lateMs, reasons, thrown, counters } = await suffer(fault);
    expect(thrown).toEqual([]);
    expect(longestMs - lateMs).toBeLessThan(HANGS_MS);
    if (fault.isFelt) expect(failed).toBeGreaterThan(0); // otherwise the fault did not happen
    for (const reason of reasons) expect(reason).not.toMatch(INTERNALS);
    for (const { limit, admitted, unavailable } of counters) {
      const capacity = fullCapacity(limit);
      expect(admitted).toBeLessThanOrEqual(capacity * (1 + fault.losses));
      expect(admitted).toBeGreaterThanOrEqual(capacity - unavailable); // a hit without an answer counts once at most
    }
  });
}
