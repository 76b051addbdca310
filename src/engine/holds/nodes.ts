import type { State } from '../algorithms/limit.ts';

/**
 * A node of a shared limit: the limit itself, or a child. Stores keep each one by itself. The first number is the time
 * of the last step, 0 for a new node.
 */
export type ShareNode = [
  ...[number, number, number, number, number, number, number],
  ...[number, number, number, number, number, number],
];
export const NODE_NUMBERS = 13;
/** A child that never had children is stored without its other numbers, which are 0. */
export const LEAF_NUMBERS = 7;

/** A state from those of its nodes, each of which may be new; undefined if the parent is. */
export function joinNodes(states: readonly (State | undefined)[]): State | undefined {
  if (states[0] === undefined) return undefined;
  const joined: number[] = [];
  for (const state of states) for (let at = 0; at < NODE_NUMBERS; at++) joined.push(state?.[at] ?? 0);
  return joined;
}

/** The part of a state that belongs to a node on the path. */
export const nodeState = (state: State, at: number): State => state.slice(at * NODE_NUMBERS, (at + 1) * NODE_NUMBERS);
