import type { WireRequest } from './wire.ts';

/** The cost of handling a decoded request. */
export interface Cost {
  /** Memory held until it is answered. */
  readonly bytes: number;
  /** Work, in the units of the call queue: about one descriptor, or a kilobyte of request. */
  readonly units: number;
}

/** Objects and counter keys, without their strings. */
const BYTES_PER_CALL = 1_024;
const BYTES_PER_DESCRIPTOR = 1_024;
const BYTES_PER_ENTRY = 128;
/** Strings are held twice: in the request and in counter keys. */
const BYTES_PER_OCTET = 2;

const ENTRIES_PER_UNIT = 8;
const OCTETS_PER_UNIT = 1_024;

/** @param octets  size of the encoded request */
export function costOf({ descriptors }: WireRequest, octets: number): Cost {
  let entries = 0;
  for (const descriptor of descriptors) entries += descriptor.entries.length;
  return {
    bytes:
      BYTES_PER_CALL + descriptors.length * BYTES_PER_DESCRIPTOR + entries * BYTES_PER_ENTRY + octets * BYTES_PER_OCTET,
    units: 1 + descriptors.length + entries / ENTRIES_PER_UNIT + octets / OCTETS_PER_UNIT,
  };
}
