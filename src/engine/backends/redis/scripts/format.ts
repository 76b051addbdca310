/**
 * The calls of scripts: the arguments, and the numbers of the packed first one and of a reply, each in its order. Both
 * sides read and write them by these names.
 */

/**
 * packed      little-endian doubles: the number of limits, and the limits, each followed by its numbers; the number of
 *             runs, and the runs, each followed by the places in KEYS of the counters with one spend, then the place and
 *             the number of spends of each counter with several; the number of trees, and the trees, each followed by
 *             the ids of its children and its spends; then the requests to the end, each followed by its operations
 * clock       in ms since the epoch; empty: the server's own
 * settlement  only in a settlement: its number
 * keptMs      how long the number of the last settlement is kept, under the last of KEYS but the usage
 * usage       only if some hits are usage: its hash and its log are the last of KEYS
 */
export const batchArguments = ['packed', 'clock', 'settlement', 'keptMs', 'usage'] as const;

/** A limit: the place of its algorithm, from 1, and how many numbers follow. */
export const limitNumbers = ['algorithm', 'length'] as const;

/** Spends of the same number of hits under one limit. Places begin with 1. */
export const runNumbers = ['limit', 'hits', 'isMetered', 'once', 'repeated'] as const;

/** Spends on a shared limit, in their order: how many children have hits, and how many spends follow. */
export const treeNumbers = ['key', 'children', 'spends'] as const;

/** The place in KEYS of the name of its usage, 0 if it is none; the places of the children on its path, 0 for none. */
export const treeSpendNumbers = ['limit', 'hits', 'usage', 'first', 'second', 'third'] as const;

/** The ids of the children on a path, 0 for none. */
export const pathNumbers = ['first', 'second', 'third'] as const;

/** The place in `spends`, and how many operations follow. */
export const requestNumbers = ['spend', 'count'] as const;

/**
 * An operation: the place in `kinds`, signed hits, the place in `roles`. Then, if metered hits are given back, `held`;
 * for a refund or a reset, `reset`; for a limit whose children share it, the place in KEYS of the name of its usage, and `path`.
 */
export const operationNumbers = ['key', 'limit', 'hits', 'kind', 'role', 'blocks', 'isMetered'] as const;

/**
 * alone    counted even if its request is refused
 * marks    its own refusal changes its counter
 * commits  independent, and its hits are those that were used of a reservation
 */
export const roles = ['ordinary', 'alone', 'marks', 'commits'] as const;

/** See `HeldAt`. */
export const heldNumbers = ['first', 'last', 'unit', 'most'] as const;

/** The place in KEYS of the time of the last reset, and the time of the charge, or how long the former is kept (ms). */
export const resetNumbers = ['key', 'ms'] as const;

/**
 * What became of an operation; its report follows, preceded by its length. `state_before` answers all spends of a
 * counter with several: its state before the first of them follows, from which the caller repeats the steps.
 */
export const outcomes = [
  'refused',
  'accepted',
  'refused_charged',
  'accepted_charged',
  'wrong_type',
  'no_integer',
  'state_before',
] as const;
export type OutcomeName = (typeof outcomes)[number];
