import type { IncomingMessage } from 'node:http';
import proxyAddr from '@fastify/proxy-addr';
import { clientAddress } from '../../../src/base/address.ts';
import { checkNumber, type Descriptor } from '../options.ts';
import type { TrustProxy } from './options.ts';

const DEFAULT_IPV6_PREFIX = 64;
const IPV6_BITS = 128;

/** Stands for clients without a known address. */
const UNKNOWN = 'unknown';

/** Information on the origin of a request. */
export interface Origin {
  /** The connected address. */
  readonly peer: string | undefined;
  readonly forwardedFor: string | undefined;
  /** The client's address according to the framework's own setting. */
  readonly resolved?: string | undefined;
}

/** The text under which a client is counted. */
export type AddressOf = (origin: Origin) => string;

/**
 * Creates the function that finds the client's address: the last address in `X-Forwarded-For` that is not a trusted
 * proxy's, or the peer. Clients can forge the header, so nothing before that address is used.
 */
export function createAddressOf(trust: TrustProxy | undefined, ipv6Prefix = DEFAULT_IPV6_PREFIX): AddressOf {
  checkNumber('ipv6Prefix', ipv6Prefix, [1, IPV6_BITS]);
  const isTrusted = trust === undefined ? undefined : createTrust(trust);
  return ({ peer, forwardedFor, resolved }) => {
    if (!isTrusted) return clientAddress(resolved, ipv6Prefix) ?? clientAddress(peer, ipv6Prefix) ?? UNKNOWN;
    const request = { headers: { 'x-forwarded-for': forwardedFor }, socket: { remoteAddress: peer } };
    const client = proxyAddr(request as unknown as IncomingMessage, isTrusted); // it reads nothing else of a request
    return clientAddress(client, ipv6Prefix) ?? clientAddress(peer, ipv6Prefix) ?? UNKNOWN;
  };
}

/**
 * Counts by the address, and throws if it is unknown: where requests have no socket, all clients would be counted
 * together.
 */
export function keyByAddress(_: unknown, address: string): Descriptor {
  if (address !== UNKNOWN) return { remote_address: address };
  throw new TypeError('the address of the client is unknown: set the option peer, trustProxy or key');
}

function createTrust(trust: TrustProxy): (address: string | undefined, hop: number) => boolean {
  if (typeof trust === 'number') {
    checkNumber('trustProxy', trust, [0, 100]);
    return (_, hop) => hop < trust;
  }
  if (trust.length === 0) return () => false;
  const isTrusted = proxyAddr.compile([...trust]);
  return (address, hop) => address !== undefined && isTrusted(clientAddress(address) ?? address, hop);
}
