import { LENGTH, open, readDuration, reader, tagOf, VARINT } from './fields.ts';

/** Decodes the answer of weir.v1.Holds: `held` is false if the holder has no slots. */
export function decodeHold(bytes: Buffer) {
  let held = false;
  let ttlMs = 0;
  let retryAfterMs: number | undefined;
  open(bytes, (tag) => {
    if (tag === tagOf(1, VARINT)) held = reader.uint32() !== 0;
    else if (tag === tagOf(2, LENGTH)) ttlMs = readDuration();
    else if (tag === tagOf(3, LENGTH)) retryAfterMs = readDuration();
    else reader.skip(tag);
  });
  return { held, ttlMs, retryAfterMs };
}

/** Decodes the answer to Reserve. */
export function decodeReserve(bytes: Buffer) {
  let reserved = false;
  let hits = 0;
  let ttlMs = 0;
  let retryAfterMs: number | undefined;
  open(bytes, (tag) => {
    if (tag === tagOf(1, VARINT)) reserved = reader.uint32() !== 0;
    else if (tag === tagOf(2, VARINT)) hits = reader.uint64();
    else if (tag === tagOf(3, LENGTH)) ttlMs = readDuration();
    else if (tag === tagOf(4, LENGTH)) retryAfterMs = readDuration();
    else reader.skip(tag);
  });
  return { reserved, hits, ttlMs, retryAfterMs };
}

/** Decodes the answer to Commit; `outcome` is its number. */
export function decodeCommit(bytes: Buffer) {
  let outcome = 0;
  let charged = 0;
  let overrun = 0;
  open(bytes, (tag) => {
    if (tag === tagOf(1, VARINT)) outcome = reader.uint32();
    else if (tag === tagOf(2, VARINT)) charged = reader.uint64();
    else if (tag === tagOf(3, VARINT)) overrun = reader.uint64();
    else reader.skip(tag);
  });
  return { outcome, charged, overrun };
}
