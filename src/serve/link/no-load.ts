import type { Load } from '../../operate/observe/service-gauges.ts';

/** The load of a process that is not open. */
export const NO_LOAD: Load = {
  ...{ inFlight: 0, held: 0, connections: 0, watches: 0, latenessMs: 0 },
  ...{ callerBytes: 0, callerMaxBytes: 0 },
};
