import type { State } from '../../../src/engine/algorithms/limit.ts';
import type { SiteTransfer } from '../../../src/engine/holds/claim.ts';
import type { SiteReport } from '../../../src/engine/holds/reports.ts';
import { hitsPerSite, missingHits, type SiteShareLimit, siteShare } from '../../../src/parts/sites/site-share.ts';
import { type Common, DataWorld, EVERYTHING, type Message, OWN_SLOTS } from '../data-world.ts';
import type { Hasher } from '../hasher.ts';
import { type Protocol, type Step, Violation } from '../world.ts';

interface Body {
  readonly kind: 'ask' | 'loan';
  readonly epochMs: number;
  /** Of an ask: the hits wanted and those taken before; of a loan: when the site asked, and the sum lent. */
  readonly hits: number;
  readonly taken: number;
  readonly sentMs: number;
  readonly repliedMs: number;
}

interface Site {
  state: State;
  untilMs: number;
  /** By how much its clock is ahead. */
  aheadMs: number;
  calls: number;
  exchanges: number;
  /** Its last report, and the time on its clock at which that was read; kept until the share changes. */
  known: { readonly ownMs: number; readonly report: SiteReport } | undefined;
}

interface SitesState extends Common<Body> {
  readonly sites: Site[];
  ticks: number;
  /** A step of one site's clock may still happen. */
  skews: number;
  /** Hits admitted in each epoch of a window, or the spent tokens of a bucket and the time of that level. */
  admitted: readonly number[];
}

interface Options {
  readonly of: SiteShareLimit['of'];
  readonly total: number;
  readonly windowMs: number;
  /** How far time goes in a step. */
  readonly tickMs: number;
  readonly skewMs: number;
}

/** Sites that share one limit: they lend each other what they do not use. */
class SitesWorld extends DataWorld<Body, SitesState> {
  readonly #options: Options;

  constructor(parties: readonly string[], options: Options) {
    const sites = parties.map(() => ({ state: [], untilMs: 0, aheadMs: 0, calls: 5, exchanges: 2, known: undefined }));
    const nowMs = 60_000 * 20 - 2 * options.tickMs; // epochs end after the second step of time
    super(parties, { nowMs, messages: [], faults: 2, sites, ticks: 3, skews: 1, admitted: [0, nowMs] });
    this.#options = options;
  }

  #limit(site: number): SiteShareLimit {
    const { of, total, windowMs } = this.#options;
    return {
      ...{ algorithm: 'site_share', of, requestsPerUnit: total, windowMs, burst: total, soft: 0, counter: 'sites' },
      ...{ maxErrorPercent: 0, sites: this.parties.length, site },
    };
  }

  protected ownSteps(): Step[] {
    const { sites, ticks, skews } = this.state;
    const { tickMs, skewMs } = this.#options;
    const steps: Step[] = [];
    for (const [at, { calls, exchanges }] of sites.entries()) {
      const from = this.parties[at] ?? '';
      if (calls > 0) {
        steps.push({ line: { from, text: 'is called once' }, touches: EVERYTHING, run: () => this.#call(at, 1) });
        if (calls > 1)
          steps.push({
            line: { from, text: 'is called for 2 hits' },
            touches: EVERYTHING,
            run: () => this.#call(at, 2),
          });
      }
      if (exchanges > 0)
        steps.push({
          line: { from, text: 'asks the others' },
          touches: 1 << at,
          slot: at * OWN_SLOTS,
          run: () => this.#ask(at),
        });
      if (skews > 0 && skewMs > 0)
        steps.push({
          line: { from, text: `its clock steps ahead by ${skewMs} ms` },
          touches: EVERYTHING,
          run: () => {
            this.state.skews--;
            this.#site(at).aheadMs += skewMs;
          },
        });
    }
    if (ticks > 0)
      steps.push({
        line: { from: 'time', text: `${tickMs} ms pass` },
        touches: EVERYTHING,
        run: () => {
          this.state.ticks--;
          this.state.nowMs += tickMs;
        },
      });
    return steps;
  }

  #step(
    at: number,
    hits: number,
    transfer?: SiteTransfer,
  ): { readonly accepted: boolean; readonly site: SiteReport | undefined } {
    const { nowMs } = this.state;
    const site = this.#site(at);
    const ownMs = nowMs + site.aheadMs;
    const limit = this.#limit(at);
    const claim = transfer ? { transfer } : {};
    const charge = transfer?.kind !== 'read';
    const known = site.untilMs > ownMs ? site.state : undefined;
    const { accepted, state, ttlMs } = siteShare.step(limit, known, ownMs, hits, charge, claim);
    if (charge) {
      site.known = undefined;
      site.state = ttlMs > 0 ? state : [];
      site.untilMs = ttlMs > 0 ? ownMs + ttlMs : 0;
    }
    return { accepted, site: siteShare.describe(limit, state, ownMs, { hits, accepted, charged: charge }, claim).site };
  }

  #site(at: number): Site {
    return this.state.sites[at] as Site; // in range
  }

  #read(at: number): SiteReport {
    const own = this.#site(at);
    const ownMs = this.state.nowMs + own.aheadMs;
    if (own.known?.ownMs === ownMs) return own.known.report;
    const { site: report } = this.#step(at, 0, { kind: 'read' });
    if (!report) throw new TypeError('a read reports the share');
    own.known = { ownMs, report };
    return report;
  }

  #call(at: number, hits: number): void {
    const before = this.#read(at);
    this.#site(at).calls -= hits;
    const { accepted } = this.#step(at, hits);
    const after = this.#read(at);
    if (!accepted && after.used !== before.used) throw new Violation('a refused call is charged');
    if (!accepted) return;
    const { of, windowMs, total } = this.#options;
    const { nowMs, admitted } = this.state;
    if (of === 'token_bucket') {
      const [spent = 0, atMs = 0] = admitted;
      this.state.admitted = [Math.max(spent - (nowMs - atMs) * total, 0) + hits * windowMs, nowMs];
      return;
    }
    const place = admitted.findIndex((epochMs, one) => one % 2 === 1 && epochMs === after.epochMs);
    this.state.admitted =
      place < 0 ? [...admitted, hits, after.epochMs] : admitted.with(place - 1, (admitted[place - 1] ?? 0) + hits);
  }

  #ask(at: number): void {
    this.#site(at).exchanges--;
    const limit = this.#limit(at);
    const report = this.#read(at);
    const need = Math.max(missingHits(limit, report, Math.max(report.demand, 2)), 1);
    for (const peer of this.parties.keys()) {
      if (peer === at) continue;
      const taken = report.taken[peer] ?? 0;
      const hits = hitsPerSite(limit, need);
      const body = { kind: 'ask', epochMs: report.epochMs, hits, taken, sentMs: report.nowMs, repliedMs: 0 } as const;
      this.send(at, peer, `lend up to ${hits} (${taken} taken)`, body);
    }
  }

  protected receive({ from, to, body }: Message<Body>): void {
    const { kind, epochMs, hits, taken, sentMs, repliedMs } = body;
    if (kind === 'ask') {
      const { accepted, site } = this.#step(to, hits, { kind: 'lend', peer: from, epochMs, taken, among: 1 });
      if (!accepted || !site) return;
      const given = site.given[from] ?? 0;
      this.send(to, from, `lent ${given} so far`, { ...body, kind: 'loan', hits: given, repliedMs: site.nowMs });
      return;
    }
    this.#step(to, 0, { kind: 'take', peer: from, epochMs, given: hits, sentMs, repliedMs });
  }

  protected copy({ nowMs, messages, faults, sites, ticks, skews, admitted }: SitesState): SitesState {
    return {
      nowMs,
      messages: messages.slice(),
      faults,
      sites: sites.map((site) => ({ ...site })),
      ticks,
      skews,
      admitted,
    };
  }

  protected describeState(hash: Hasher, { sites, ticks, skews, admitted }: SitesState): void {
    for (const { state, untilMs, aheadMs, calls, exchanges } of sites) {
      hash.numbers(state);
      hash.number(untilMs);
      hash.number(aheadMs);
      hash.word(calls * 8 + exchanges);
    }
    hash.word(ticks * 4 + skews);
    hash.numbers(admitted);
  }

  protected describeBody(hash: Hasher, { kind, epochMs, hits, taken, sentMs, repliedMs }: Body): void {
    hash.word((kind === 'ask' ? 1 : 0) + 2 * (hits * 64 + taken));
    hash.number(epochMs);
    hash.number(sentMs);
    hash.number(repliedMs);
  }

  violation(): string | undefined {
    const { of, total, windowMs } = this.#options;
    const { admitted, sites } = this.state;
    const most =
      of === 'token_bucket'
        ? Math.floor((admitted[0] ?? 0) / windowMs)
        : Math.max(...admitted.filter((_, at) => at % 2 === 0));
    if (most > total) return `${most} hits were admitted, of ${total}`;
    const reports = sites.map((_, at) => this.#read(at));
    for (const [at, { epochMs, taken }] of reports.entries())
      for (const [peer, { epochMs: other, given }] of reports.entries())
        if (epochMs === other && (taken[peer] ?? 0) > (given[at] ?? 0))
          return `${this.parties[at]} took more than was lent`;
    return undefined;
  }

  /** Also lets each site use what it may still admit: together no more than the limit. */
  end(): string | undefined {
    this.state.faults = 0;
    this.deliverAll();
    for (const at of this.parties.keys()) this.#call(at, Math.max(this.#read(at).room, 0));
    const violation = this.violation();
    if (violation !== undefined) return `if each site uses all that it may: ${violation}`;
    const { windowMs, total } = this.#options;
    this.state.nowMs += 2 * Math.max(windowMs, 60_000);
    const free = this.parties.reduce((sum, _, at) => sum + this.#read(at).room, 0);
    return free === total ? undefined : `only ${free} of ${total} hits are free after the window`;
  }
}

const shared = {
  code: 'parts/sites/site-share.ts, parts/sites/borrower.ts',
  parties: ['north', 'south'],
  invariants: [
    'all sites together admit at most the limit',
    'no site takes more than was lent to it',
    'a refused call is not charged',
    'nothing is lent for ever',
  ],
} as const;

export const siteWindows: Protocol = {
  ...shared,
  ...{ name: 'sites, window', depth: 5, longDepth: 7 },
  create: () =>
    new SitesWorld(shared.parties, { of: 'fixed_window', total: 6, windowMs: 60_000, tickMs: 700, skewMs: 700 }),
};

export const siteBuckets: Protocol = {
  ...shared,
  ...{ name: 'sites, bucket', depth: 5, longDepth: 7 },
  create: () =>
    new SitesWorld(shared.parties, { of: 'token_bucket', total: 6, windowMs: 60_000, tickMs: 700, skewMs: 700 }),
};

export const siteWindowsOfThree: Protocol = {
  ...shared,
  name: 'sites, window, three',
  parties: [...shared.parties, 'west'],
  depth: 4,
  longDepth: 6,
  create: () =>
    new SitesWorld(siteWindowsOfThree.parties, {
      of: 'fixed_window',
      total: 6,
      windowMs: 60_000,
      tickMs: 700,
      skewMs: 700,
    }),
};
