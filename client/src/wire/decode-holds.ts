import { fieldTag, LENGTH, open, readDuration, reader, VARINT } from './fields.ts';
import { type Commit, commitOutcomes, type HoldAnswers, type ReserveAnswer, type SlotAnswer } from './messages.ts';

/** Decodes the answer of each method of weir.v1.Holds. Throws a RangeError if it is malformed. */
export const decodeHold: { readonly [M in keyof HoldAnswers]: (bytes: Buffer) => HoldAnswers[M] } = {
  Acquire: decodeSlots,
  Renew: decodeSlots,
  Release: () => undefined,
  Reserve: decodeReserve,
  Commit: decodeCommit,
};

function decodeSlots(bytes: Buffer): SlotAnswer {
  let held = false;
  let ttlMs = 0;
  let retryAfterMs: number | undefined;
  open(bytes, (tag) => {
    if (tag === fieldTag(1, VARINT)) held = reader.uint32() !== 0;
    else if (tag === fieldTag(2, LENGTH)) ttlMs = readDuration();
    else if (tag === fieldTag(3, LENGTH)) retryAfterMs = readDuration();
    else reader.skip(tag);
  });
  return { held, ttlMs, retryAfterMs };
}

function decodeReserve(bytes: Buffer): ReserveAnswer {
  let reserved = false;
  let hits = 0;
  let ttlMs = 0;
  let retryAfterMs: number | undefined;
  open(bytes, (tag) => {
    if (tag === fieldTag(1, VARINT)) reserved = reader.uint32() !== 0;
    else if (tag === fieldTag(2, VARINT)) hits = reader.uint64();
    else if (tag === fieldTag(3, LENGTH)) ttlMs = readDuration();
    else if (tag === fieldTag(4, LENGTH)) retryAfterMs = readDuration();
    else reader.skip(tag);
  });
  return { reserved, hits, ttlMs, retryAfterMs };
}

function decodeCommit(bytes: Buffer): Commit {
  let outcome = 0;
  let charged = 0;
  let overrun = 0;
  open(bytes, (tag) => {
    if (tag === fieldTag(1, VARINT)) outcome = reader.uint32();
    else if (tag === fieldTag(2, VARINT)) charged = reader.uint64();
    else if (tag === fieldTag(3, VARINT)) overrun = reader.uint64();
    else reader.skip(tag);
  });
  return { outcome: commitOutcomes[outcome - 1] ?? 'committed', charged, overrun };
}
