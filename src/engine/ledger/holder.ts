import { createHash } from 'node:crypto';

/** The number that identifies the request with an id: from 1 to below 2^53; 0, for no request, if the id is empty. */
export function holderOf(id: string): number {
  if (id === '') return 0;
  const digest = createHash('sha256').update(id).digest();
  return digest.readUInt32LE(0) * 0x20_0000 + (digest.readUInt32LE(4) & 0x1f_ffff) || 1;
}
