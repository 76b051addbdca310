import { isIPv6 } from 'node:net';

/** The first half of an IPv6 address: a client chooses the other half as it likes. */
const NETWORK_GROUPS = 4;
const GROUPS = 8;

/** The name under which a client's connections are counted; undefined, for unix sockets: all have the same. */
export function peerOf(address = ''): string {
  if (!isIPv6(address)) return address;
  if (address.includes('.')) return address.slice(address.lastIndexOf(':') + 1); // an IPv4 address in IPv6's form
  const [before = [], after = []] = address.split('::').map((part) => (part === '' ? [] : part.split(':')));
  const zeros = Array.from({ length: GROUPS - before.length - after.length }, () => '0');
  return [...before, ...zeros, ...after].slice(0, NETWORK_GROUPS).join(':');
}
