import type { Descriptor } from './options.ts';
import type { Entry, LimitRequest } from './wire/messages.ts';

/** The request as it is sent. Throws a TypeError where it cannot be. */
export function requestOf(domain: string, descriptors: Descriptor | readonly Descriptor[], hits: number): LimitRequest {
  if (typeof domain !== 'string' || domain === '') throw new TypeError(`domain must be a name, got ${String(domain)}`);
  const list = isList(descriptors) ? descriptors : [descriptors];
  if (list.length === 0) throw new TypeError('expected at least one descriptor');
  return { domain, descriptors: list.map(entriesOf), hits };
}

const isList = (descriptors: Descriptor | readonly Descriptor[]): descriptors is readonly Descriptor[] =>
  Array.isArray(descriptors);

function entriesOf(descriptor: Descriptor): readonly Entry[] {
  const entries = Object.entries(descriptor ?? {});
  if (entries.length === 0) throw new TypeError("expected a descriptor with at least one entry, as { user: 'alice' }");
  return entries.map(([key, value]) => {
    if (typeof value === 'string') return [key, value];
    if (typeof value === 'number') return [key, String(value)];
    throw new TypeError(`the entry ${key} must be a string or a number, got ${String(value)}`);
  });
}
