import type { Compiled } from '../lua/compiled-step.ts';
import type { Charge, State, Step } from './limit.ts';

/** A long state that several steps change in place. */
export interface Opened extends Array<number> {
  /** How many of the first numbers do not count any more. */
  dropped: number;
  /** Lists of a state that come before this one. */
  before?: readonly State[];
}

/** The functions of an algorithm that also run in Redis, from their compiled form, on the numbers `N` of a limit. */
interface Source<L, N, S, C> {
  readonly compiled: Compiled;
  numbers(limit: L, nowMs: number, claim?: C): N;
  step(limit: N, state: S, nowMs: number, hits: number, charge: Charge): Step;
  refund(limit: N, state: S, nowMs: number, hits: number, chargedAtMs: number): Step;
}

/** The members of a row that run in Redis as well. */
interface Stepped<L, C> {
  readonly script: Compiled;
  step(limit: L, state: State | undefined, nowMs: number, hits: number, charge: Charge, claim?: C): Step;
  refund(limit: L, state: State | undefined, nowMs: number, hits: number, chargedAtMs: number, claim?: C): Step;
  scriptArgs(limit: L, nowMs: number, claim?: C): readonly number[];
}

/** For an algorithm whose states are short. */
export function stepped<L, N extends object, C = never>(source: Source<L, N, State | undefined, C>): Stepped<L, C> {
  const { compiled, numbers } = source;
  return {
    script: compiled,
    step: (limit, state, nowMs, hits, charge, claim) =>
      source.step(numbers(limit, nowMs, claim), state, nowMs, hits, charge),
    refund: (limit, state, nowMs, hits, chargedAtMs, claim) =>
      source.refund(numbers(limit, nowMs, claim), state, nowMs, hits, chargedAtMs),
    scriptArgs: (limit, nowMs, claim) => listNumbers(compiled.fields, numbers(limit, nowMs, claim)),
  };
}

/** For an algorithm whose states are long: `open` prepares a copy that its steps change. */
export function steppedOpen<L, N extends object, S extends Opened, C = never>(
  source: Source<L, N, S, C> & { open(limit: N, list: number[], nowMs: number): S },
): Stepped<L, C> {
  const { compiled, numbers, open } = source;
  return {
    script: compiled,
    step(limit, state, nowMs, hits, charge, claim) {
      const own = numbers(limit, nowMs, claim);
      const opened = open(own, state ? state.slice() : [], nowMs);
      return close(source.step(own, opened, nowMs, hits, charge));
    },
    refund(limit, state, nowMs, hits, chargedAtMs, claim) {
      const own = numbers(limit, nowMs, claim);
      const opened = open(own, state ? state.slice() : [], nowMs);
      return close(source.refund(own, opened, nowMs, hits, chargedAtMs));
    },
    scriptArgs: (limit, nowMs, claim) => listNumbers(compiled.fields, numbers(limit, nowMs, claim)),
  };
}

/** The step, with its state as one list. */
function close(result: Step): Step {
  const { dropped, before } = result.state as Opened; // those of `open`
  if (dropped === 0 && !before) return result;
  const first = (before ?? []).flatMap((list) => closed(list));
  return { ...result, state: first.concat(result.state.slice(dropped)) };
}

const closed = (list: State): State => list.slice((list as Opened).dropped ?? 0); // it may be one

/** The numbers of a limit in the order in which scripts read them. */
export function listNumbers(fields: readonly string[], numbers: object): readonly number[] {
  const list: number[] = [];
  for (const field of fields) {
    const value = (numbers as Readonly<Record<string, number | readonly number[]>>)[field.replace('[]', '')]; // as compiled
    if (typeof value === 'number') list.push(value);
    else list.push(...(value ?? []));
  }
  return list;
}
