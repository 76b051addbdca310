import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';

/** A block of IP addresses: all that begin with the same bits. A single address is a block of all its bits. */
export interface AddressBlock {
  /** 4 or 16; an IPv4-mapped IPv6 address has 4. */
  readonly bytes: readonly number[];
  /** The number of leading bits that all addresses of the block have in common. */
  readonly bits: number;
}

/** Maximum length of a block's text, an IPv6 address with an IPv4 part and a prefix. */
const MAX_CHARACTERS = 49;
/** An IPv4 address in the obsolete form `::192.0.2.1`, which the parser takes for an IPv4-mapped one. */
const COMPATIBLE = /^::\d+\./;
/** The leading bits of an IPv4-mapped IPv6 address. */
const MAPPED_BITS = 96;

/**
 * Parses `10.0.0.0/8`, `2001:db8::/32`, or a single address, or returns undefined. IPv4 addresses must have four
 * decimal numbers; IPv6 addresses no zone, and an IPv4 part only after `::ffff:`.
 */
export function parseAddressBlock(text: string): AddressBlock | undefined {
  if (text.length > MAX_CHARACTERS) return undefined;
  const slash = text.indexOf('/');
  const found = parseAddress(slash < 0 ? text : text.slice(0, slash));
  if (!found) return undefined;
  const { bytes, isMapped } = found;
  const length = 8 * bytes.length;
  if (slash < 0) return { bytes, bits: length };
  const written = text.slice(slash + 1);
  if (!/^(0|[1-9]\d{0,2})$/.test(written)) return undefined;
  const bits = Number(written) - (isMapped ? MAPPED_BITS : 0);
  return bits >= 0 && bits <= length ? { bytes, bits } : undefined;
}

function parseAddress(text: string): { readonly bytes: readonly number[]; readonly isMapped: boolean } | undefined {
  const version = isIP(text);
  if (version === 4) return { bytes: ipaddr.IPv4.parse(text).octets, isMapped: false };
  if (version === 0 || text.includes('%') || COMPATIBLE.test(text)) return undefined;
  const address = ipaddr.IPv6.parse(text);
  return address.isIPv4MappedAddress()
    ? { bytes: address.toIPv4Address().octets, isMapped: true }
    : { bytes: address.toByteArray(), isMapped: false };
}

/** The block with the same leading bits, and 0 in all others. */
export const toNetwork = ({ bytes, bits }: AddressBlock): AddressBlock => ({
  bytes: bytes.map((byte, at) => byte & (0xff << Math.min(Math.max(8 - (bits - 8 * at), 0), 8)) & 0xff),
  bits,
});

/** The shortest text of a block; `10.0.0.1` for a single address. Equal blocks have the same. */
export function addressBlockText({ bytes, bits }: AddressBlock): string {
  const address = ipaddr.fromByteArray([...bytes]);
  const text = address instanceof ipaddr.IPv6 ? address.toRFC5952String() : address.toString();
  return bits === 8 * bytes.length ? text : `${text}/${bits}`;
}

/** Reason why a rule may not name a text as a block; undefined if it may. */
export function addressBlockProblem(text: string): string | undefined {
  const block = parseAddressBlock(text);
  if (!block) return 'expected a block of IP addresses such as 10.0.0.0/8, 2001:db8::/32 or 10.0.0.1';
  const network = toNetwork(block);
  if (network.bytes.every((byte, at) => byte === block.bytes[at])) return undefined;
  const single = addressBlockText({ bytes: block.bytes, bits: 8 * block.bytes.length });
  return `its address has bits beyond /${block.bits}: write ${addressBlockText(network)} for the block, or ${single} for the address`;
}
