import '../../helpers/realm.ts';
import { capacityOf } from '../../../src/algorithms/index.ts';
import { faultsOfOneServer } from '../../helpers/faults/of-one-server.ts';
import { faultsOfSeveralServers } from '../../helpers/faults/of-several-servers.ts';
import { suffer } from '../../helpers/faults/suffer.ts';

/** Forty times the budget of a call, and shorter than the longest fault: a call that takes longer hangs. */
const HANGS_MS = 4_000;

/** What is no caller's business: where slots are, what our script is called, how the Redis client is set. */
const INTERNALS = /MOVED|ASK|TRYAGAIN|CROSSSLOT|NOSCRIPT|redirection|script:|user_script|Request limit|OfflineQueue/;

test.each([...faultsOfOneServer, ...faultsOfSeveralServers])('$event', async (fault) => {
  const { failed, longestMs, reasons, thrown, counters } = await suffer(fault);
  expect(thrown).toEqual([]);
  expect(longestMs).toBeLessThan(HANGS_MS);
  if (fault.isFelt) expect(failed).toBeGreaterThan(0); // else it has not happened
  for (const reason of reasons) expect(reason).not.toMatch(INTERNALS);
  for (const { limit, admitted, unavailable } of counters) {
    const capacity = capacityOf(limit);
    expect(admitted).toBeLessThanOrEqual(capacity * (1 + fault.losses));
    expect(admitted).toBeGreaterThanOrEqual(capacity - unavailable); // a hit counts once, even where nobody was told
  }
});
