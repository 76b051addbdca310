import { CallerMemory } from '../../src/overload/caller-memory.ts';
import { type Overload, openOverload } from '../../src/overload/overload.ts';

/** Overload control that refuses nothing unless `changes` say so, with a given memory limit. */
export function overloadOf(changes: Partial<Overload> = {}, memoryBytes = 2 ** 28): Overload {
  const opened = openOverload({
    ...{ maxInFlight: 1_000_000, memoryBytes, onMissed: () => {}, countLate: () => {} },
  });
  return { ...opened, memory: new CallerMemory(memoryBytes), ...changes };
}
