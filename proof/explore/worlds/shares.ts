import { toShareReport } from '../../../src/parts/quotas/buckets.ts';
import { type Share, type ShareState, type ShareTerms, stepShares } from '../../../src/parts/quotas/shares.ts';
import { type Common, DataWorld, EVERYTHING, type Message, OWN_SLOTS } from '../data-world.ts';
import type { Hasher } from '../hasher.ts';
import type { Protocol, Step } from '../world.ts';

const pool = { units: 16, fillMs: 1_000, burst: 16 };
const terms: ShareTerms = { ttlMs: 60_000, transitMs: 2_000, silenceMs: 10_000 };
/** The longest time of a message on its way. */
const WAY_MS = terms.transitMs / 2;

type Body =
  | { readonly kind: 'report'; readonly requests: number; readonly coveredMs: number }
  | { readonly kind: 'share'; readonly share: Share };

interface Proxy {
  /** The number of its connection; those of an unnamed proxy have different holders. */
  connection: number;
  reports: number;
  /** Its share, which it uses until then. */
  units: number;
  burst: number;
  untilMs: number;
  /** The stream at the service: when it began, its last report, and the last share that was sent. */
  sinceMs: number;
  reportedMs: number;
  assigned: { readonly number: number; readonly atMs: number } | undefined;
}

interface SharesState extends Common<Body> {
  readonly proxies: Proxy[];
  pool: ShareState;
  poolUntilMs: number;
  ticks: number;
}

const STREAM_BEGINS = { sinceMs: 0, reportedMs: 0, assigned: undefined } as const;

/** Proxies that divide a rate; the first one has a name. */
class SharesWorld extends DataWorld<Body, SharesState> {
  protected override readonly isOrdered = true;

  constructor(parties: readonly string[], reports: number) {
    const proxies = parties
      .slice(1)
      .map(() => ({ connection: 1, reports, units: 0, burst: 0, untilMs: 0, ...STREAM_BEGINS }));
    super(parties, { nowMs: 1_000_000, messages: [], faults: 2, proxies, pool: [], poolUntilMs: 0, ticks: 4 });
    const [busy, report] = ['is busy, and reports', 'report: 40 requests'];
    this.play(['A', busy], ['A', report], ['service', 'share 1'], ['B', busy], ['B', report]);
    this.play(['service', 'share 1']); // A has all
  }

  protected ownSteps(): Step[] {
    const { proxies, ticks, faults } = this.state;
    const steps: Step[] = [];
    for (const [at, { reports }] of proxies.entries()) {
      const from = this.parties[at + 1] ?? '';
      if (reports > 0)
        for (const [kind, requests] of [0, 40].entries())
          steps.push({
            line: { from, text: requests > 0 ? 'is busy, and reports' : 'is idle, and reports' },
            touches: 2 << at,
            slot: (at + 1) * OWN_SLOTS + kind,
            run: () => this.#report(at, requests),
          });
      if (faults > 0)
        steps.push({
          line: { from, text: 'loses its connection' },
          touches: EVERYTHING,
          run: () => {
            this.state.faults--;
            this.#disconnect(at);
          },
        });
    }
    if (ticks > 0)
      for (const ms of [WAY_MS, terms.ttlMs / 2])
        steps.push({ line: { from: 'time', text: `${ms} ms pass` }, touches: EVERYTHING, run: () => this.#pass(ms) });
    return steps;
  }

  #report(at: number, perSecond: number): void {
    const proxy = this.#proxy(at);
    proxy.reports--;
    const coveredMs = proxy.reportedMs > 0 || proxy.units > 0 ? 1_000 : 0;
    this.send(at + 1, 0, `report: ${perSecond} requests`, { kind: 'report', requests: perSecond, coveredMs });
  }

  #proxy(at: number): Proxy {
    return this.state.proxies[at] as Proxy; // in range
  }

  #disconnect(at: number): void {
    const proxy = this.#proxy(at);
    proxy.connection++;
    Object.assign(proxy, STREAM_BEGINS);
    this.state.messages = this.state.messages.filter(({ from, to }) => from + to - 1 !== at);
  }

  /** Connections with a message that would take too long end. */
  #pass(ms: number): void {
    this.state.nowMs += ms;
    this.state.ticks--;
    for (const at of this.state.proxies.keys())
      if (
        this.state.messages.some(({ from, to, sentMs }) => from + to - 1 === at && this.state.nowMs - sentMs > WAY_MS)
      )
        this.#disconnect(at);
  }

  protected receive({ from, to, body }: Message<Body>): void {
    const { nowMs } = this.state;
    if (body.kind === 'share') {
      const { units, burst } = body.share;
      Object.assign(this.#proxy(to - 1), { units, burst, untilMs: nowMs + terms.ttlMs });
      return;
    }
    const proxy = this.#proxy(from - 1);
    const { reportedMs, assigned, connection } = proxy;
    const sinceMs = proxy.sinceMs || nowMs;
    const elapsedMs = reportedMs > 0 ? nowMs - reportedMs : body.coveredMs;
    const requests = (body.requests * elapsedMs) / 1_000;
    const isNamed = from === 1;
    const holder = isNamed ? 'named' : `${this.parties[from]}/${connection}`;
    const elapsed = { arrivedMs: nowMs, usageMs: body.coveredMs };
    const report = toShareReport({ assigned, knownSinceMs: sinceMs }, { requests, elapsedMs }, elapsed, {
      terms,
      holder,
      isNamed,
      leaves: false,
    });
    const before = this.state.poolUntilMs > nowMs ? this.state.pool : undefined;
    const { state, share, ttlMs } = stepShares(before, report, { pool, terms, nowMs });
    this.state.pool = ttlMs > 0 ? state : [];
    this.state.poolUntilMs = nowMs + ttlMs;
    proxy.sinceMs = sinceMs;
    proxy.reportedMs = nowMs;
    if (!share) return;
    proxy.assigned = { number: share.number, atMs: nowMs };
    this.send(0, from, `share ${share.number}: ${share.units} of ${pool.units}`, { kind: 'share', share });
  }

  protected copy({ nowMs, messages, faults, proxies, pool: holders, poolUntilMs, ticks }: SharesState): SharesState {
    return {
      nowMs,
      messages: messages.slice(),
      faults,
      proxies: proxies.map((proxy) => ({ ...proxy })),
      pool: holders,
      poolUntilMs,
      ticks,
    };
  }

  protected describeState(hash: Hasher, { proxies, pool: holders, poolUntilMs, ticks }: SharesState): void {
    for (const { connection, reports, units, burst, untilMs, sinceMs, reportedMs, assigned } of proxies) {
      hash.word(connection * 16 + reports);
      hash.numbers([units, burst, untilMs, sinceMs, reportedMs, assigned?.number ?? 0, assigned?.atMs ?? 0]);
    }
    hash.word(holders.length);
    for (const one of holders) {
      hash.text(one.id);
      hash.numbers([one.demand, one.reportedAtMs, one.number, one.units, one.burst, one.endsAtMs]);
      hash.numbers([one.earlierUnits, one.earlierBurst, one.earlierEndsAtMs]);
    }
    hash.number(poolUntilMs);
    hash.word(ticks);
  }

  protected describeBody(hash: Hasher, body: Body): void {
    if (body.kind === 'share') hash.numbers([body.share.number, body.share.units, body.share.burst]);
    else hash.numbers([body.requests, body.coveredMs]);
  }

  violation(): string | undefined {
    const valid = this.state.proxies.filter(({ untilMs }) => untilMs > this.state.nowMs);
    const units = valid.reduce((sum, one) => sum + one.units, 0);
    if (units > pool.units) return `the shares in force add up to ${units}, of ${pool.units}`;
    const burst = valid.reduce((sum, one) => sum + one.burst, 0);
    return burst > pool.burst + valid.length ? `the bursts in force add up to ${burst}, of ${pool.burst}` : undefined;
  }

  /** The last one that reports gets almost everything, once the others are silent. */
  end(): string | undefined {
    this.state.faults = 0;
    this.deliverAll();
    for (let left = 4; left > 0; left--) {
      this.#pass(terms.ttlMs / 2);
      this.#proxy(0).reports = 1;
      this.#report(0, 40);
      this.deliverAll();
      const violation = this.violation();
      if (violation !== undefined) return violation;
    }
    const units = this.state.proxies[0]?.units ?? 0;
    return units >= pool.units - 1 ? undefined : `${pool.units - units} units are still held for proxies that are gone`;
  }
}

export const shares: Protocol = {
  name: 'quota shares',
  code: 'parts/quotas/shares.ts, parts/quotas/buckets.ts',
  parties: ['service', 'A', 'B'],
  invariants: [
    'the shares in force add up to at most the rate',
    'so do their bursts, but for a token of each proxy',
    'no unit is held for a proxy that is gone',
  ],
  depth: 7,
  longDepth: 10,
  create: () => new SharesWorld(shares.parties, 4),
};

export const sharesOfThree: Protocol = {
  ...shares,
  name: 'quota shares, three',
  parties: [...shares.parties, 'C'],
  depth: 6,
  longDepth: 8,
  create: () => new SharesWorld(sharesOfThree.parties, 4),
};
