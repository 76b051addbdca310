import type { Operation } from '../../src/engine/backends/backend.ts';
import type { Counter } from '../../src/engine/backends/key.ts';
import { hasHolders, type Limit } from '../../src/engine/holds/limits.ts';
import { createDebit, type Debit } from '../../src/engine/ledger/debit.ts';

/** The operation of a request on a counter, for tests of backends: without a policy. */
export const operationOf = (counter: Counter, limit: Limit, hits: number, blocks: boolean, charges = false): Debit =>
  createDebit(counter, { limit, policy: {} }, hits, blocks, charges);

/** The same operation for the request with this number; unchanged if the hits of its limit have no holders. */
export const heldBy = <O extends Operation>(operation: O, holder: number): O =>
  hasHolders(operation.limit) ? { ...operation, holder } : operation;
