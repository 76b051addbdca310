import type { Descriptor } from './options.ts';
import type { Entry, LimitRequest } from './wire/messages.ts';

/** The service's limits for a descriptor; `test/client/request.test.ts` compares them. */
const MAX_ENTRIES = 64;
const MAX_CHARS = 16_384;

/** A descriptor exceeds the limits of the service, often because of a text from the caller's client. */
export class OversizedDescriptor extends TypeError {}

/** Creates the request to send. Throws a TypeError if it would be invalid. */
export function createRequest(
  domain: string,
  descriptors: Descriptor | readonly Descriptor[],
  hits: number,
): LimitRequest {
  if (typeof domain !== 'string' || domain === '') throw new TypeError(`domain must be a name, got ${String(domain)}`);
  const list = isList(descriptors) ? descriptors : [descriptors];
  if (list.length === 0) throw new TypeError('expected at least one descriptor');
  return { domain, descriptors: list.map(toEntries), hits };
}

const isList = (descriptors: Descriptor | readonly Descriptor[]): descriptors is readonly Descriptor[] =>
  Array.isArray(descriptors);

function toEntries(descriptor: Descriptor): readonly Entry[] {
  const entries = Object.entries(descriptor ?? {});
  if (entries.length === 0) throw new TypeError("expected a descriptor with at least one entry, as { user: 'alice' }");
  if (entries.length > MAX_ENTRIES)
    throw new OversizedDescriptor(`expected at most ${MAX_ENTRIES} entries in a descriptor, got ${entries.length}`);
  return entries.map(([key, value]) => {
    if (key.length > MAX_CHARS) throw oversized('a key', key);
    if (typeof value === 'string') {
      if (value.length > MAX_CHARS) throw oversized(`the entry ${key}`, value);
      return [wellFormed(key), wellFormed(value)];
    }
    if (typeof value === 'number') return [wellFormed(key), String(value)];
    throw new TypeError(`the entry ${key} must be a string or a number, got ${String(value)}`);
  });
}

const oversized = (name: string, { length }: string): OversizedDescriptor =>
  new OversizedDescriptor(`${name} must have at most ${MAX_CHARS} characters, got ${length}`);

/** As encoded in protobuf. TypeScript's library for ES2023 does not list the method, which Node 20 has. */
const wellFormed = (text: string): string => (text as unknown as { toWellFormed(): string }).toWellFormed();
