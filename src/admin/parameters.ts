import { MAX_UINT32, maximumRequest } from '../rls/wire.ts';
import { object } from './schema.ts';

export const MAX_HITS = MAX_UINT32;

export const text = { type: 'string', maxLength: maximumRequest.textLength } as const;
const entry = object({ key: { ...text, minLength: 1 }, value: text }, ['key', 'value']);
export const descriptor = { type: 'array', items: entry, minItems: 1, maxItems: maximumRequest.entries } as const;
export const domain = { ...text, minLength: 1 } as const;
export const reason = { type: 'string', minLength: 1, maxLength: 500, description: 'why: for the audit log' } as const;

export const noQuery = object({}, []);
