import { every } from '../../base/clock.ts';
import type { OpenOperatorPart } from '../../serve/control/part.ts';
import { overrideOperations } from './operations.ts';
import { createOverrideRecords, FOLLOW_INTERVAL_MS } from './override-records.ts';

/** Until then the processes that answer requests may still start. */
const START_MS = 10_000;

/** Follows overrides in the store, and lets operators change them. */
export const openOverrides: OpenOperatorPart = (
  options,
  _settings,
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
  const close = every(FOLLOW_INTERVAL_MS, () => void state.run(overrides.follow));
  return { operations: overrideOperations({ ...options, overrides }), close };
};
