import { readFileSync } from 'node:fs';
import { childrenOf } from '../../test/helpers/child-processes.ts';
import { MAIN } from '../../test/helpers/weir.ts';

interface Service {
  readonly pid: number;
}

/** The running deciders of a service with several. */
export const workersOf = ({ pid }: Service): readonly number[] =>
  childrenOf(pid).filter((child) => commandOf(child).includes(MAIN) && !commandOf(child).includes('control-process'));

export const controlOf = ({ pid }: Service): number | undefined =>
  childrenOf(pid).find((child) => commandOf(child).includes('control-process'));

function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'latin1');
  } catch {
    return ''; // it has ended
  }
}
