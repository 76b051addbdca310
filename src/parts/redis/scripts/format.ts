/**
 * The calls of scripts: the arguments, the numbers of the first one, and those of a reply, by their places. Both sides
 * read and write them by these names, which the compiler replaces in scripts. `size` is the place of what follows.
 */

/**
 * packed      little-endian doubles: the number of limits, and the limits, each followed by its numbers; the number of
 *             runs, and the runs, each followed by the places in KEYS of the counters with one spend, then the place and
 *             the number of spends of each counter with several; the number of trees, and the trees, each followed by
 *             the ids of its children and its spends; then the requests to the end, each followed by its operations
 * clock       in ms since the epoch; empty: the server's own
 * settlement  only in a settlement: its number
 * keptMs      how long the number of the last settlement is kept, under the last of KEYS but the usage
 * usage       only if some hits are usage: its hash and its log are the last of KEYS, and names follow
 *
 * Usage is booked under a counter, by its place in KEYS, or under one of these names, by its negative place.
 */
export const argumentAt = { packed: 0, clock: 1, settlement: 2, keptMs: 3, usage: 4 } as const;

/** A limit: the place of its algorithm, from 1, and how many numbers follow. */
export const limitAt = { algorithm: 0, length: 1, size: 2 } as const;

/** Spends of the same number of hits under one limit. Places begin with 1. */
export const runAt = { limit: 0, hits: 1, isMetered: 2, once: 3, repeated: 4, size: 5 } as const;

/** Spends on a shared limit, in their order: how many children have hits, and how many spends follow. */
export const treeAt = { key: 0, children: 1, spends: 2, size: 3 } as const;

/** What its usage is booked under, 0 if it is none; the places of the children on its path, 0 for none. */
export const treeSpendAt = { limit: 0, hits: 1, usage: 2, first: 3, second: 4, third: 5, size: 6 } as const;

/** The ids of the children on a path, 0 for none. */
export const pathAt = { first: 0, second: 1, third: 2, size: 3 } as const;

/** The place in `spends`, and how many operations follow. */
export const requestAt = { spend: 0, count: 1, size: 2 } as const;

/**
 * An operation: the place in `kinds`, signed hits, the place in `roles`. Then, if metered hits are given back, `heldAt`;
 * for a refund or a reset, `resetAt`; for a limit whose children share it, what its usage is booked under, and
 * `pathAt`.
 */
export const operationAt = { key: 0, limit: 1, hits: 2, kind: 3, role: 4, blocks: 5, isMetered: 6, size: 7 } as const;

/**
 * alone    counted even if its request is refused
 * marks    its own refusal changes its counter
 * commits  independent, and its hits are those that were used of a reservation
 */
export const roles = { ordinary: 0, alone: 1, marks: 2, commits: 3 } as const;

/** See `HeldAt`. */
export const heldAt = { first: 0, last: 1, unit: 2, most: 3, size: 4 } as const;

/**
 * The place in KEYS of the time of the last reset, or 0 if that is before the charge; and the time of the charge, or how
 * long the former is kept (ms).
 */
export const resetAt = { key: 0, ms: 1, size: 2 } as const;

/**
 * What became of an operation; its report follows, preceded by its length. `stateBefore` answers all spends of a
 * counter with several: its state before the first of them follows, from which the caller repeats the steps.
 */
export const outcomes = {
  refused: 0,
  accepted: 1,
  refusedCharged: 2,
  acceptedCharged: 3,
  wrongType: 4,
  noInteger: 5,
  stateBefore: 6,
} as const;
