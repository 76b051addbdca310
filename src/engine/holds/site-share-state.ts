import type { AnyLimit, State } from '../algorithms/limit.ts';

/** The numbers of a limit that determine a site's share. */
interface ShareNumbers extends AnyLimit {
  readonly of: 'fixed_window' | 'token_bucket';
  readonly burst: number;
  readonly sites: number;
  readonly site: number;
  /** Indices of sites that an operator declared lost, whose parts the others divide. Default: none. */
  readonly lost?: readonly number[];
  /** Percentage by which all sites together may exceed the limit. */
  readonly maxErrorPercent: number;
}

/** The time over which demand is measured. */
export const SLOT_MS = 500;
/** The time after which tokens lent from a bucket are void. */
const EPOCH_MS = 60_000;
/** Maximum difference between the clocks of two sites; beyond it, nothing is taken. */
export const MAX_SKEW_MS = 1_000;

/** Numbers before the table, and numbers of each site in the table: given to it, confirmed by it, taken from it. */
const HEAD = 7;
const ROW = 3;

/** A site's row in the table, which can be modified. */
interface ShareRow {
  given: number;
  confirmed: number;
  taken: number;
}

/** Whether the limit is a token bucket; else it is a window. */
export const isBucket = ({ of }: Pick<ShareNumbers, 'of'>): boolean => of === 'token_bucket';

/** The hits that are divided among the sites: for a bucket its burst. */
export const siteTotal = (limit: Pick<ShareNumbers, 'of' | 'requestsPerUnit' | 'burst'>): number =>
  isBucket(limit) ? limit.burst : limit.requestsPerUnit;

/** One of several equal parts; the first parts share the remainder. */
const equalPart = (total: number, parts: number, at: number): number =>
  Math.floor(total / parts) + (at < total % parts ? 1 : 0);

/** An equal part, plus one of the parts of lost sites, which have none. */
function sitePart(total: number, { sites, site, lost }: ShareNumbers): number {
  const own = equalPart(total, sites, site);
  if (!lost) return own;
  if (lost.includes(site)) return 0;
  const left = lost.reduce((sum, place) => sum + equalPart(total, sites, place), 0);
  return own + equalPart(left, sites - lost.length, site - lost.filter((place) => place < site).length);
}

/** For a bucket, the token-ms that are refilled per millisecond. */
export const siteRate = ({ requestsPerUnit, sites, lost }: ShareNumbers): number =>
  lost ? Math.floor((requestsPerUnit * sites) / (sites - lost.length)) : requestsPerUnit;

/** The site's part of the limit. */
export const siteBase = (limit: ShareNumbers): number => sitePart(siteTotal(limit), limit);

/** The hits by which all sites together may exceed the limit. */
export const maxError = (limit: ShareNumbers): number => Math.floor((siteTotal(limit) * limit.maxErrorPercent) / 100);

/** The site's part of `maxError`: the hits that it may admit before others have lent them. */
export const siteAdvance = (limit: ShareNumbers): number => sitePart(maxError(limit), limit);

/** One token in token-ms. A site has a longer window, so that its rate is an exact part of the limit's. */
export const siteTokenMs = ({ windowMs, sites }: ShareNumbers): number => windowMs * sites;

const epochLengthMs = (limit: ShareNumbers): number => (isBucket(limit) ? EPOCH_MS : limit.windowMs);

/** The hits that a site may admit, with those that moved to it: in a bucket, these are used or refilled. */
export const admissible = (limit: ShareNumbers, base: number, moved: number): number =>
  isBucket(limit) ? base : base + moved;

/** The state of a site's counter. A step modifies its own copy. */
export class SiteShare {
  /** When the epoch began. */
  epochMs: number;
  /** For a window: hits. For a bucket: token-ms that were spent and not refilled. */
  used = 0;
  /** For a bucket: the time of the last refill. */
  atMs: number;
  /** The start of the slot in which `offered` hits were requested; `earlier` is the number in the slot before. */
  slotMs: number;
  offered = 0;
  earlier = 0;
  /** For a bucket: tokens of the previous epoch that may be in transit. */
  heldOver = 0;
  /** Three numbers for each site, or none. */
  table: number[] = [];
  readonly #limit: ShareNumbers;

  /** The state as of a time: windows begin, buckets are refilled, demand is forgotten. */
  constructor(limit: ShareNumbers, state: State | undefined, nowMs: number) {
    const startMs = nowMs - (nowMs % epochLengthMs(limit));
    this.#limit = limit;
    this.epochMs = startMs;
    this.atMs = nowMs;
    this.slotMs = nowMs - (nowMs % SLOT_MS);
    if (!state || state.length < HEAD) return;
    const [epochMs = 0, used = 0, atMs = 0, slotMs = 0, offered = 0, earlier = 0, heldOver = 0] = state;
    this.epochMs = epochMs;
    this.used = used;
    this.atMs = atMs;
    this.heldOver = heldOver;
    this.table = state.slice(HEAD);
    if (this.slotMs > slotMs) this.earlier = this.slotMs === slotMs + SLOT_MS ? offered : 0;
    else {
      this.slotMs = slotMs;
      this.offered = offered;
      this.earlier = earlier;
    }
    if (isBucket(limit)) this.#refill(nowMs, startMs);
    else if (startMs > epochMs) {
      this.epochMs = startMs;
      this.used = 0;
      this.table = [];
    }
  }

  /** Hits requested per slot recently, whether they passed or not. */
  get demand(): number {
    return Math.max(this.offered, this.earlier);
  }

  /** Tokens lent in this epoch that are not known to be taken. */
  get inTransit(): number {
    const { table } = this;
    let sum = 0;
    for (let at = 0; at < table.length; at += ROW) sum += Math.max((table[at] ?? 0) - (table[at + 1] ?? 0), 0);
    return sum;
  }

  /** Hits that the site may still admit; negative if the limit was lowered. */
  get room(): number {
    const { used, table } = this;
    const limit = this.#limit;
    const base = siteBase(limit);
    if (isBucket(limit)) return Math.floor((base * siteTokenMs(limit) - used) / siteTokenMs(limit));
    let moved = 0;
    for (let at = 0; at < table.length; at += ROW) moved += (table[at + 2] ?? 0) - (table[at] ?? 0);
    return base + moved - used;
  }

  /** The site's row of the table; writes go to the table. */
  findRow(peer: number): ShareRow {
    const { table } = this;
    while (table.length < ROW * this.#limit.sites) table.push(0);
    const at = ROW * peer;
    const cell = (place: number) => ({
      get: (): number => table[at + place] ?? 0,
      set: (number: number) => {
        table[at + place] = number;
      },
    });
    const row: ShareRow = { given: 0, confirmed: 0, taken: 0 };
    return Object.defineProperties(row, { given: cell(0), confirmed: cell(1), taken: cell(2) });
  }

  /** The end of the epoch. */
  get endMs(): number {
    return this.epochMs + epochLengthMs(this.#limit);
  }

  /** The state of the counter; an empty table is left out. */
  toState(): State {
    const { epochMs, used, atMs, slotMs, offered, earlier, heldOver, table } = this;
    return [epochMs, used, atMs, slotMs, offered, earlier, heldOver, ...(this.#isMoved ? table : [])];
  }

  /** The time until the state is that of an unused counter. */
  ttlMs(nowMs: number): number {
    const { epochMs, used, atMs, slotMs, offered, earlier, heldOver } = this;
    const slots = offered > 0 ? 2 : earlier > 0 ? 1 : 0;
    const demandMs = slots > 0 ? slotMs + slots * SLOT_MS - nowMs : 0;
    const isMoved = this.#isMoved;
    if (!isBucket(this.#limit)) return Math.max(used > 0 || isMoved ? this.endMs - nowMs : 0, demandMs, 0);
    const fullMs = Math.ceil(used / siteRate(this.#limit));
    if (heldOver > 0 || isMoved) return Math.max(epochMs + EPOCH_MS + MAX_SKEW_MS + fullMs - nowMs, demandMs, 0);
    return Math.max(used > 0 ? atMs + fullMs - nowMs : 0, demandMs, 0);
  }

  get #isMoved(): boolean {
    return this.table.some((number) => number > 0);
  }

  /**
   * Refills all but tokens in transit. Those of an earlier epoch remain until no site can take them, whatever its
   * clock.
   */
  #refill(nowMs: number, startMs: number): void {
    this.#refillTo(Math.min(nowMs, this.epochMs + MAX_SKEW_MS), this.inTransit + this.heldOver);
    if (startMs > this.epochMs) {
      const endMs = this.epochMs + EPOCH_MS;
      this.#refillTo(Math.min(nowMs, endMs), this.inTransit);
      this.heldOver = this.inTransit;
      this.table = [];
      this.#refillTo(Math.min(nowMs, endMs + MAX_SKEW_MS), this.heldOver);
      if (startMs > endMs) this.heldOver = 0;
      this.epochMs = startMs;
    }
    if (nowMs >= this.epochMs + MAX_SKEW_MS) this.heldOver = 0;
    this.#refillTo(nowMs, this.inTransit + this.heldOver);
  }

  #refillTo(untilMs: number, keptTokens: number): void {
    if (untilMs <= this.atMs) return;
    const left = this.used - (untilMs - this.atMs) * siteRate(this.#limit);
    this.used = Math.max(left, keptTokens * siteTokenMs(this.#limit));
    this.atMs = untilMs;
  }
}
