import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { parseAddressBlock } from '../../engine/rules/read/address-block.ts';
import type { GuardEvent } from './guard.ts';
import { CLIENT_BITS } from './peers.ts';

const OWN = { family: 'inet', table: 'weir_guard' } as const;
const TABLE = { table: { family: OWN.family, name: OWN.table } } as const;
const CHAIN = 'drop_offenders';
/** Before connection tracking, which so costs nothing for dropped packets. */
const PRIORITY_RAW = -300;

/** The sets of addresses, and the part of a packet that each is compared with. */
const SETS = [
  { name: 'ipv4', type: 'ipv4_addr', source: { payload: { protocol: 'ip', field: 'saddr' } } },
  { name: 'ipv6', type: 'ipv6_addr', source: { payload: { protocol: 'ip6', field: 'saddr' } } },
  {
    name: 'ipv6_networks',
    type: 'ipv6_addr',
    source: { '&': [{ payload: { protocol: 'ip6', field: 'saddr' } }, 'ffff:ffff:ffff:ffff::'] },
  },
] as const;

interface DropOptions {
  /** Ports to which packets are dropped: of TCP, and of UDP for QUIC. */
  readonly ports: readonly number[];
  /** Only packets that arrive on these are dropped; none: on all. */
  readonly interfaces: readonly string[];
  readonly maxEntries: number;
}

/** Creates the table, in place of one that an earlier process left. */
export function createTable({ ports, interfaces, maxEntries }: DropOptions): Promise<void> {
  const size = 2 * maxEntries; // elements that have expired take room until the kernel collects them
  const matches = [
    ...(interfaces.length > 0 ? [equal({ meta: { key: 'iifname' } }, { set: interfaces })] : []),
    equal({ meta: { key: 'l4proto' } }, { set: ['tcp', 'udp'] }),
    equal({ payload: { protocol: 'th', field: 'dport' } }, { set: ports }),
  ];
  return apply([
    ...removal,
    { add: TABLE },
    ...SETS.map(({ name, type }) => ({ add: { set: { ...OWN, name, type, flags: ['timeout'], size } } })),
    {
      add: { chain: { ...OWN, name: CHAIN, type: 'filter', hook: 'prerouting', prio: PRIORITY_RAW, policy: 'accept' } },
    },
    ...SETS.map(({ name, source }) => {
      const expr = [...matches, equal(source, `@${name}`), { counter: null }, { drop: null }];
      return { add: { rule: { ...OWN, chain: CHAIN, expr } } };
    }),
  ]);
}

/** Removes the table, and so all addresses. */
export const removeTable = (): Promise<void> => apply(removal);

/** Adds and removes addresses, in one transaction. */
export const applyEvents = (events: readonly GuardEvent[]): Promise<void> =>
  apply(
    events.flatMap(({ event, address, seconds }) => {
      const [val = '', prefix] = address.split('/');
      const isIpv4 = parseAddressBlock(address)?.bytes.length === 4;
      const name = isIpv4 ? 'ipv4' : prefix === String(CLIENT_BITS) ? 'ipv6_networks' : 'ipv6';
      const element = (elem: object) => ({ element: { ...OWN, name, elem: [elem] } });
      const add = { add: element({ elem: { val, timeout: seconds ?? 1 } }) };
      if (event === 'add') return [add];
      // deleting an element that has expired is an error, adding one that exists is none
      return event === 'remove' ? [add, { delete: { element: { ...OWN, name, elem: [val] } } }] : [];
    }),
  );

const equal = (left: object, right: unknown) => ({ match: { op: '==', left, right } });

/** Adding first makes it succeed without a table as well. */
const removal = [{ add: TABLE }, { delete: TABLE }];

/**
 * Runs commands in one transaction, by the JSON interface of `nft`.
 *
 * @throws Error  with what nft printed
 * @see https://manpages.debian.org/libnftables-json.5
 */
async function apply(commands: readonly object[]): Promise<void> {
  if (commands.length === 0) return;
  const nft = spawn('sh', ['-c', 'cat | nft -j -f -'], { stdio: ['pipe', 'ignore', 'pipe'] }); // nft opens no socket, which a pipe of Node is
  let printed = '';
  nft.stderr.on('data', (text: Buffer) => {
    printed += text.toString();
  });
  nft.stdin.on('error', () => {}); // it has ended: its exit says why
  nft.stdin.end(JSON.stringify({ nftables: commands }));
  const [code] = await once(nft, 'close');
  if (code !== 0) throw new Error(`nft ended with ${code}: ${printed.trim().split('\n')[0]}`);
}
