import { limitadorPeer } from './limitador.ts';
import type { Peer } from './peer.ts';
import { referencePeer } from './reference.ts';

/** The services that `npm run bench` compares Weir with. */
export const peers: readonly Peer[] = [referencePeer, limitadorPeer];
