import { intermittent } from '../../base/clock.ts';
import type { OpenOperatorPart } from '../../serve/control/part.ts';
import { overrideOperations } from './operations.ts';
import { createOverrideRecords, FOLLOW_INTERVAL_MS } from './override-records.ts';

/** Until then the processes that answer requests may still start. */
const START_MS = 10_000;

/** Follows overrides in the store, and lets operators change them. */
export const openOverrides: OpenOperatorPart = (
  options,
  { counters },
  { records, hasOwnRecords, overrides: standing = [], log, background },
) => {
  const { hash, clock, ask } = options;
  const overrides = createOverrideRecords({
    records,
    clock,
    overrides: options.overrides,
    spread: (all) => ask({ kind: 'overrides', overrides: all }),
    onForeign: (key, reason) =>
      log.error(
        `the override under ${hash ? hash(key) : key} has no effect, others do: ${reason}; remove it from the store`,
      ),
    isEmpty: standing.length === 0,
  });
  if (hasOwnRecords && standing.length > 0) void overrides.restore(standing);
  const state = background.add('overrides', 'reading overrides', START_MS); // while it fails, the last ones apply
  let isComplete = false;
  const read = async (): Promise<void> => {
    await overrides.follow();
    isComplete = counters.store.kind !== 'redis'; // which other instances share
  };
  const following = intermittent(FOLLOW_INTERVAL_MS, () => {
    void state.run(read);
    return !isComplete || options.overrides.size > 0; // which may expire
  });
  options.overrides.onChange(following.wake);
  following.wake();
  return { operations: overrideOperations({ ...options, overrides }), close: following.close };
};
