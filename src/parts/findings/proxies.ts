import type { Caller } from '../../edge/rls/service.ts';
import { PROXY_HEADER } from '../../edge/wire/wire.ts';
import { inOnePiece } from '../../engine/backends/key.ts';
import type { PeerAddress } from '../../h2/listen/listener.ts';

/** A caller, named by a header or its address. */
export interface NamedProxy {
  readonly proxy: string;
  /** `10.0.0.3:51234`; absent if it is unknown. */
  readonly connection?: string;
}

export type Sender = Pick<Caller, 'header' | 'connection'>;

/** Names the node of an Envoy whose operator has it sent. */
const NODE_HEADER = 'x-envoy-downstream-service-node';

export const UNKNOWN_PROXY = '(unknown)';

/** Names callers, once for each connection. */
export class Proxies {
  readonly #byConnection = new WeakMap<object, NamedProxy>();

  identify(caller: Sender): NamedProxy {
    const { connection } = caller;
    const known = connection && this.#byConnection.get(connection);
    if (known) return known;
    const { address } = connection ?? {};
    const name = caller.header(PROXY_HEADER) ?? caller.header(NODE_HEADER) ?? address?.host ?? UNKNOWN_PROXY;
    const proxy = { proxy: keptText(name), ...(address && { connection: formatAddress(address) }) };
    if (connection) this.#byConnection.set(connection, proxy);
    return proxy;
  }
}

const formatAddress = ({ host, port }: PeerAddress): string => `${host.includes(':') ? `[${host}]` : host}:${port}`;

/** Longest text that is kept of what a caller sent. */
export const MAX_TEXT_LENGTH = 100;

export const keptText = (text: string): string => inOnePiece(text.slice(0, MAX_TEXT_LENGTH));
