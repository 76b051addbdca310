import { InvalidDescriptor, parseDescriptor } from '../descriptor-text.ts';
import { MAX_UINT32, maximumRequest } from '../rls/wire.ts';
import type { Entry } from '../rules/match.ts';
import { ApiProblem } from './problem.ts';
import { object } from './schema.ts';

export const MAX_HITS = MAX_UINT32;

export const text = { type: 'string', maxLength: maximumRequest.textLength } as const;
const entry = object({ key: { ...text, minLength: 1 }, value: text }, ['key', 'value']);
export const descriptor = { type: 'array', items: entry, minItems: 1, maxItems: maximumRequest.entries } as const;
export const domain = { ...text, minLength: 1 } as const;
export const reason = { type: 'string', minLength: 1, maxLength: 500, description: 'why: for the audit log' } as const;

export const noQuery = object({}, []);

/** The parameter `count` of a list. */
export function pageSize(maximum: number) {
  return { type: 'integer', minimum: 1, maximum, description: 'how many at most' } as const;
}

/** A change of what one descriptor has. */
export interface ChangeBody {
  readonly domain: string;
  readonly descriptor: readonly Entry[];
  readonly reason: string;
}

/**
 * Reads `key=value[,key=value…]`.
 *
 * @throws ApiProblem  400
 */
export function readDescriptor(written: string): readonly Entry[] {
  try {
    return parseDescriptor(written);
  } catch (error) {
    throw error instanceof InvalidDescriptor ? new ApiProblem(400, error.message) : error;
  }
}
