import { hash } from 'node:crypto';
import { unitMs } from '../algorithms/limit.ts';

/** What an operation states besides its hits. Counters without holders ignore it. */
export interface Claim {
  /** Identifies the request that takes or returns hits, an integer below 2^53. Default: 0, for no id. */
  readonly holder?: number;
  /** The hits are those that the holder has used of its reservation. */
  readonly commits?: boolean;
  /** One side of moving hits between two sites; absent if the hits are counted. */
  readonly transfer?: SiteTransfer;
  /** The children of a shared rate that the hits belong to; stores keep each one. */
  readonly share?: ShareClaim;
  /** The children of shared slots that the hits belong to; they are part of the counter's state. */
  readonly slotShare?: ShareClaim | undefined;
  /** The priority that the request states: the part of an adaptive limit that it may use, in percent. Default: all. */
  readonly threshold?: number | undefined;
  /** The HTTP status of the response, with which a release gives back all slots of its holder. */
  readonly status?: number | undefined;
}

/** The path of hits through the children of a shared limit. */
export interface ShareClaim {
  /** The ids of the children, from the top: integers from 1 to below 2^53. */
  readonly children: readonly number[];
  /** The threshold of the priority that the request states, in percent. Default: that of the rule. */
  readonly threshold?: number;
}

/** The holder of hits that are taken and returned without an id. */
export const ANONYMOUS = 0;

/** The holder with an id: from 1 to below 2^53; `ANONYMOUS` if the id is empty. */
export function hashHolder(id: string): number {
  if (id === '') return ANONYMOUS;
  const digest = hash('sha256', id, 'buffer');
  return digest.readUInt32LE(0) * 0x20_0000 + (digest.readUInt32LE(4) & 0x1f_ffff) || 1;
}

/** Bounds of the time that a slot may be held, or hits be reserved. */
const MIN_TTL_MS = 100;
const MAX_TTL_MS = unitMs.DAY;

export const isTtl = (ms: number | undefined): ms is number => ms !== undefined && ms >= MIN_TTL_MS && ms <= MAX_TTL_MS;

/** Whether an operation states more than its hits. */
export const isClaim = ({ holder, commits, transfer, share, threshold, status }: Claim): boolean =>
  (holder !== undefined && holder !== ANONYMOUS) ||
  commits === true ||
  transfer !== undefined ||
  share !== undefined ||
  threshold !== undefined ||
  status !== undefined;

/** This site's part of limits that several sites share, according to the settings. */
export interface SiteSplit {
  readonly sites: number;
  /** The index of this site. */
  readonly site: number;
  /** Indices of sites whose parts the others divide. Default: none. */
  readonly lost?: readonly number[];
  /** A digest of the names of all sites in order: if one of them differs, an index stands for another site. */
  readonly group: string;
}

/** One side of moving hits between two sites; `peer` is the index of the other site. */
export type SiteTransfer =
  /** Changes nothing: reports the state of the site's share. */
  | { readonly kind: 'read' }
  /** Gives the peer hits that this site will not use; at most the hits of the step. */
  | {
      readonly kind: 'lend';
      readonly peer: number;
      readonly epochMs: number;
      /** The hits that the peer has taken from this site in the epoch. */
      readonly taken: number;
      /** The number of sites that request hits. */
      readonly among: number;
    }
  /** Takes the hits that the peer has lent in this epoch, given as their sum. */
  | {
      readonly kind: 'take';
      readonly peer: number;
      readonly epochMs: number;
      readonly given: number;
      /** When this site sent its request, and when the peer lent, each on the clock of its own store. */
      readonly sentMs: number;
      readonly repliedMs: number;
    };
