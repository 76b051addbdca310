import type { State } from '../../../src/engine/algorithms/limit.ts';
import type { Claim, SiteTransfer } from '../../../src/engine/holds/claim.ts';
import {
  hitsPerSite,
  missingHits,
  type SiteShareLimit,
  SLOT_MS,
  siteShare,
} from '../../../src/parts/sites/site-share.ts';

/** The network between sites, and how it fails. Shares are from 0 to 1, times in milliseconds. */
export interface Network {
  readonly delayMs: number;
  readonly lost: number;
  readonly duplicated: number;
  /** The partitions per second of a pair of sites, and their maximum length. */
  readonly partitions: number;
  readonly partitionMs: number;
}

export interface SitesOptions {
  /** The limit of all sites together. */
  readonly of: SiteShareLimit['of'];
  readonly requestsPerUnit: number;
  readonly windowMs: number;
  readonly burst: number;
  /** By how much they may exceed the limit. */
  readonly maxErrorPercent: number;
  /** How far the clock of each site's store is ahead, for each site. */
  readonly skewMs: readonly number[];
  readonly instances: number;
  readonly network: Network;
  /** Restarts per second of an instance. */
  readonly restarts: number;
  readonly startMs: number;
  /** Returns a number from 0 to 1. */
  readonly random: () => number;
}

/** A site with its store, whose contents expire. */
interface SimulatedSite {
  limit: SiteShareLimit;
  readonly skewMs: number;
  state: State | undefined;
  untilMs: number;
  /** Requests per second. */
  demand: number;
  instances: Instance[];
}

/** The state of an instance between two exchanges. */
interface Instance {
  nextMs: number;
  refused: number;
  confirmed: number[];
}

interface Result {
  readonly accepted: boolean;
  readonly state: State;
  readonly site: NonNullable<ReturnType<typeof siteShare.describe>['site']> | undefined;
}

const TICK_MS = 10;

/**
 * Sites that share one limit, with simulated clocks and a simulated network. Tracks the hits that they admit together.
 */
export class SitesSimulation {
  readonly #options: SitesOptions;
  readonly sites: readonly SimulatedSite[];
  readonly #messages: { readonly atMs: number; readonly to: number; readonly run: () => void }[] = [];
  readonly #cutUntilMs = new Map<string, number>();
  /** Indexes of lost sites. */
  readonly #lost = new Set<number>();
  readonly #byWindow = new Map<number, number>();
  /** One bucket for all sites: the spent tokens times the window, and the time of that level. */
  #spent = 0;
  #spentAtMs: number;
  nowMs: number;
  /** The largest number of hits beyond the limit. */
  over = 0;
  admitted: number[];
  lent = 0;

  constructor(options: SitesOptions) {
    this.#options = options;
    this.nowMs = options.startMs;
    this.#spentAtMs = options.startMs;
    const { of, requestsPerUnit, windowMs, burst, maxErrorPercent, skewMs, instances, random } = options;
    this.sites = skewMs.map((skew, site) => ({
      limit: {
        ...{ algorithm: 'site_share', of, requestsPerUnit, windowMs, burst, soft: 0, counter: 'simulated' },
        maxErrorPercent,
        ...{ sites: skewMs.length, site },
      },
      ...{ skewMs: skew, state: undefined, untilMs: 0, demand: 0 },
      instances: Array.from({ length: instances }, () => this.#newInstance(random())),
    }));
    this.admitted = skewMs.map(() => 0);
  }

  run(forMs: number): void {
    const endMs = this.nowMs + forMs;
    while (this.nowMs < endMs) {
      this.nowMs += TICK_MS;
      this.#deliver();
      this.#fail();
      for (const [place, site] of this.sites.entries()) {
        if (this.#lost.has(place)) continue;
        this.#request(place, site);
        for (const instance of site.instances) if (instance.nextMs <= this.nowMs) this.#exchange(place, site, instance);
      }
    }
  }

  #newInstance(phase: number): Instance {
    return { nextMs: this.nowMs + Math.floor(phase * SLOT_MS), refused: 0, confirmed: [] };
  }

  #fail(): void {
    const { network, restarts, random } = this.#options;
    const perTick = TICK_MS / 1_000;
    for (const site of this.sites)
      if (random() < restarts * perTick)
        site.instances[Math.floor(random() * site.instances.length)] = this.#newInstance(random());
    if (random() >= network.partitions * perTick) return;
    const one = Math.floor(random() * this.sites.length);
    const other = Math.floor(random() * this.sites.length);
    this.cut(one, other, random() * network.partitionMs);
  }

  /** Ends a site. */
  lose(place: number): void {
    this.#lost.add(place);
  }

  /** Lets the others divide the parts of lost sites. */
  divideLost(): void {
    for (const site of this.sites) site.limit = { ...site.limit, lost: [...this.#lost].toSorted() };
  }

  /** Partitions two sites. */
  cut(one: number, other: number, forMs: number): void {
    for (const pair of [`${one} ${other}`, `${other} ${one}`]) this.#cutUntilMs.set(pair, this.nowMs + forMs);
  }

  #step(site: SimulatedSite, hits: number, charge: boolean, transfer?: SiteTransfer): Result {
    const atMs = this.nowMs + site.skewMs;
    const known = site.untilMs > this.nowMs ? site.state : undefined;
    const claim: Claim = transfer ? { transfer } : {};
    const { accepted, state, ttlMs } = siteShare.step(site.limit, known, atMs, hits, charge, claim);
    if (charge) {
      site.state = ttlMs > 0 ? state : undefined;
      site.untilMs = this.nowMs + ttlMs;
    }
    const decision = siteShare.describe(site.limit, state, atMs, { hits, accepted, charged: charge }, claim);
    return { accepted, state, site: decision.site };
  }

  #request(place: number, site: SimulatedSite): void {
    const { random } = this.#options;
    const mean = (site.demand * TICK_MS) / 1_000;
    const requests = Math.floor(mean) + (random() < mean % 1 ? 1 : 0);
    for (let left = requests; left > 0; left--) {
      const hits = random() < 0.9 ? 1 : 1 + Math.floor(random() * 4);
      const { accepted, state } = this.#step(site, hits, true);
      const instance = site.instances[Math.floor(random() * site.instances.length)];
      if (accepted) this.#admit(place, hits, state[0] ?? 0);
      else if (instance) instance.refused += hits;
    }
  }

  #admit(place: number, hits: number, epochMs: number): void {
    const { of, requestsPerUnit, windowMs, burst } = this.#options;
    this.admitted[place] = (this.admitted[place] ?? 0) + hits;
    if (of === 'fixed_window') {
      const inWindow = (this.#byWindow.get(epochMs) ?? 0) + hits;
      this.#byWindow.set(epochMs, inWindow);
      this.over = Math.max(this.over, inWindow - requestsPerUnit);
      return;
    }
    const refilled = (this.nowMs - this.#spentAtMs) * requestsPerUnit;
    this.#spent = Math.max(this.#spent - refilled, 0) + hits * windowMs;
    this.#spentAtMs = this.nowMs;
    this.over = Math.max(this.over, (this.#spent - burst * windowMs) / windowMs);
  }

  /** One exchange of an instance with each other site. */
  #exchange(place: number, site: SimulatedSite, instance: Instance): void {
    instance.nextMs = this.nowMs + SLOT_MS;
    const { site: checked } = this.#step(site, 0, false, { kind: 'read' });
    if (!checked) return;
    const need = missingHits(site.limit, checked, Math.max(checked.demand, instance.refused));
    instance.refused = 0;
    for (const [peer, other] of this.sites.entries()) {
      const taken = checked.taken[peer] ?? 0;
      if (peer === place || (need === 0 && taken <= (instance.confirmed[peer] ?? 0))) continue;
      const { epochMs, nowMs: sentMs } = checked;
      this.#send(place, peer, () => {
        const lend = { kind: 'lend', peer: place, epochMs, taken, among: 1 } as const;
        const { accepted, site: lent } = this.#step(other, hitsPerSite(site.limit, need), true, lend);
        if (!accepted || !lent) return;
        const given = lent.given[place] ?? 0;
        this.#send(peer, place, () => {
          instance.confirmed[peer] = taken;
          const take = { kind: 'take', peer, epochMs, given, sentMs, repliedMs: lent.nowMs } as const;
          if (this.#step(site, 0, true, take).accepted) this.lent += Math.max(given - taken, 0);
        });
      });
    }
  }

  /** Sends a message, which may be late or lost, or arrive twice. */
  #send(from: number, to: number, run: () => void): void {
    const { network, random } = this.#options;
    const isCut = (this.#cutUntilMs.get(`${from} ${to}`) ?? 0) > this.nowMs;
    if (isCut || random() < network.lost) return;
    const copies = random() < network.duplicated ? 2 : 1;
    for (let left = copies; left > 0; left--) {
      const lateMs = random() < 0.05 ? random() * 5_000 : 0; // so late that all sites have given it up
      this.#messages.push({ atMs: this.nowMs + network.delayMs * (0.5 + random()) + lateMs, to, run });
    }
  }

  #deliver(): void {
    const due = this.#messages.filter(({ atMs }) => atMs <= this.nowMs);
    if (due.length === 0) return;
    const later = this.#messages.filter(({ atMs }) => atMs > this.nowMs);
    this.#messages.splice(0, this.#messages.length, ...later);
    for (const { run, to } of due.toSorted((one, other) => one.atMs - other.atMs)) if (!this.#lost.has(to)) run();
  }
}
