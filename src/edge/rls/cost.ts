import type { Cost } from '../../h2/bounds/call-queue.ts';
import type { WireRequest } from '../wire/wire.ts';

/** Memory of objects and counter keys without their strings. */
const BYTES_PER_CALL = 1_024;
const BYTES_PER_DESCRIPTOR = 1_024;
const BYTES_PER_ENTRY = 128;
/** Strings are held twice, in the request and in counter keys. */
const BYTES_PER_OCTET = 2;

const ENTRIES_PER_UNIT = 8;
const OCTETS_PER_UNIT = 1_024;

/** Cost of a request, where a unit is about one descriptor or a kilobyte. @param octets  size of the encoded request */
export function requestCost({ descriptors }: WireRequest, octets: number): Cost {
  let entries = 0;
  for (const descriptor of descriptors) entries += descriptor.entries.length;
  return {
    bytes:
      BYTES_PER_CALL + descriptors.length * BYTES_PER_DESCRIPTOR + entries * BYTES_PER_ENTRY + octets * BYTES_PER_OCTET,
    units: 1 + descriptors.length + entries / ENTRIES_PER_UNIT + octets / OCTETS_PER_UNIT,
  };
}

/**
 * Factor for the extra work of such a call, whose descriptors are matched several times, and whose limits with
 * reservations read up to a thousand of them at each step.
 */
const HOSTED_FACTOR = 8;

/**
 * Cost of a call that is decoded by a library and handled with promises, which are those of `weir.v1.Rules` and of
 * services of parts.
 *
 * @param message  a request, or a message with a `request`
 * @param octets   size of the encoded message
 */
export function hostedCost(message: unknown, octets: number): Cost {
  const decoded = message as Partial<WireRequest> & { readonly request?: WireRequest | null }; // by their definitions
  const { descriptors = [] } = decoded.request ?? decoded;
  const { bytes, units } = requestCost({ domain: '', hits_addend: 0, descriptors }, octets);
  return { bytes, units: HOSTED_FACTOR * units };
}
