import { type Overload, openOverload } from '../../src/edge/overload/overload.ts';
import { CallerMemory } from '../../src/h2/bounds/caller-memory.ts';

/** Overload control that refuses nothing unless `changes` say so, with a given memory limit. */
export function overloadOf(changes: Partial<Overload> = {}, memoryBytes = 2 ** 28): Overload {
  const opened = openOverload({
    ...{ maxInFlight: 1_000_000, memoryBytes, onMissed: () => {}, countLate: () => {}, answerKnown: () => undefined },
  });
  return { ...opened, memory: new CallerMemory(memoryBytes), ...changes };
}
