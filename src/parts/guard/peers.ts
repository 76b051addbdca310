import { readFile } from 'node:fs/promises';
import { addressBlockText, toNetwork } from '../../engine/rules/read/address-block.ts';

/**
 * States of connections whose handshake is complete, so that the address of the peer is not forged: all but SYN_SENT,
 * SYN_RECV, CLOSE and LISTEN.
 *
 * @see https://github.com/torvalds/linux/blob/master/include/net/tcp_states.h
 */
const COMPLETE = new Set(['01', '04', '05', '06', '08', '09', '0B']);

/** Bits of the IPv6 network that usually belongs to one client. */
export const CLIENT_BITS = 64;

/**
 * Addresses that are connected to one of the ports in this network namespace, as `203.0.113.7` or `2001:db8::1`, and
 * the /64 networks of the IPv6 ones.
 */
export async function readPeers(ports: readonly number[]): Promise<ReadonlySet<string>> {
  const tables = await Promise.all(
    ['/proc/net/tcp', '/proc/net/tcp6'].map((path) => readFile(path, 'latin1').catch(() => '')), // tcp6: absent without IPv6
  );
  return parsePeers(tables.join('\n'), ports);
}

/** @param table  the lines of `/proc/net/tcp` and `/proc/net/tcp6` */
export function parsePeers(table: string, ports: readonly number[]): ReadonlySet<string> {
  const peers = new Set<string>();
  const line = /^ *\d+: [\dA-F]+:([\dA-F]{4}) ([\dA-F]+):[\dA-F]{4} ([\dA-F]{2}) /gm;
  for (const [, port = '', remote = '', state = ''] of table.matchAll(line)) {
    if (!COMPLETE.has(state) || !ports.includes(Number.parseInt(port, 16))) continue;
    const bytes = parseWords(remote);
    peers.add(addressBlockText({ bytes, bits: 8 * bytes.length }));
    if (bytes.length === 16) peers.add(addressBlockText(toNetwork({ bytes, bits: CLIENT_BITS })));
  }
  return peers;
}

const MAPPED = `${'0'.repeat(20)}ffff`;

/** The bytes of an address, which is written in words of 32 bits whose lowest byte is first in memory. */
function parseWords(hex: string): readonly number[] {
  const bytes = Buffer.from(hex, 'hex').swap32();
  return [...(bytes.toString('hex').startsWith(MAPPED) ? bytes.subarray(12) : bytes)];
}
