import { type AddressBlock, toNetwork } from '../../engine/rules/read/address-block.ts';
import { CLIENT_BITS } from './peers.ts';

/**
 * Blocks that are never dropped: loopback, private, shared and link-local addresses, IPv4 clients behind NAT64 (in
 * ::/8), multicast, and what no client may have. Balancers, pods and nodes are usually among them.
 *
 * @see https://www.iana.org/assignments/iana-ipv4-special-registry
 * @see https://www.iana.org/assignments/iana-ipv6-special-registry
 */
export const SPECIAL_BLOCKS = [
  ...['0.0.0.0/8', '10.0.0.0/8', '100.64.0.0/10', '127.0.0.0/8', '169.254.0.0/16', '172.16.0.0/12', '192.0.0.0/24'],
  ...['192.168.0.0/16', '198.18.0.0/15', '224.0.0.0/3', '::/8', 'fc00::/7', 'fe80::/10', 'ff00::/8'],
] as const;

export interface Spared {
  /** Balancers, proxies, monitoring: what the operator allows. */
  readonly allowed: readonly AddressBlock[];
  readonly special: readonly AddressBlock[];
  /** The addresses of this machine. */
  readonly own: readonly AddressBlock[];
}

/** Reason why a block must not be dropped; undefined if it may. */
export function refusal(block: AddressBlock, { allowed, special, own }: Spared): string | undefined {
  const length = 8 * block.bytes.length;
  if (block.bits < length && !(length === 128 && block.bits === CLIENT_BITS))
    return `only single addresses and IPv6 /${CLIENT_BITS} networks are dropped`;
  const isIn = (blocks: readonly AddressBlock[]): boolean => blocks.some((one) => overlap(one, block));
  if (isIn(allowed)) return 'it is allowed (--allow)';
  if (isIn(special)) return 'it is private or special';
  return isIn(own) ? 'it is an address of this machine' : undefined;
}

/** Whether two blocks have an address in common. */
function overlap(one: AddressBlock, other: AddressBlock): boolean {
  if (one.bytes.length !== other.bytes.length) return false;
  const bits = Math.min(one.bits, other.bits);
  const { bytes } = toNetwork({ bytes: other.bytes, bits });
  return toNetwork({ bytes: one.bytes, bits }).bytes.every((byte, at) => byte === bytes[at]);
}
