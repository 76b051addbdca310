import type { Hash } from '../../base/hashed.ts';
import type { Entry } from '../../engine/rules/match/match.ts';
import { type Range, Series } from '../../operate/status/series.ts';
import { describeTop, mergeRules, type RefusedTop } from '../lab/sketches/rule-top.ts';
import type { ShownKey } from '../lab/sketches/shapes.ts';
import { encodedEntries } from '../lab/sketches/top-name.ts';
import type { RefusedClient } from './answers.ts';
import { Episode } from './episode.ts';

/** The most clients that are followed: about 2 kB each, besides their descriptors. */
const MAX_CLIENTS = 200;
const DAY_MS = 86_400_000;
const WINDOW_MS = 60_000;
/** A client's first requests are taken to be those of this time. */
const FIRST_MS = 10_000;

interface Followed {
  readonly episode: Episode;
  /** Refused requests per second, as the mean of the last minute. */
  readonly series: Series;
  shown: Pick<RefusedClient, 'rule' | 'descriptor' | 'entries' | 'cut' | 'atMostTooHighBy' | 'atMostTooLowBy'>;
  /** Refused requests of the last minute. */
  requests: number;
  refusedShare: number;
}

/** Follows the clients with the most refused requests over a day: since when they are refused, and how often. */
export class RefusedClients {
  readonly #byId = new Map<string, Followed>();
  readonly #hash: Hash | undefined;
  #isPartial = false;

  /** @param hash  hashes callers' values; undefined if they are shown unchanged */
  constructor(hash: Hash | undefined) {
    this.#hash = hash;
  }

  /** The number of clients that were refused in the last minute. */
  get count(): { readonly clients: number; readonly isAtLeast: boolean } {
    return { clients: this.#refused().length, isAtLeast: this.#isPartial };
  }

  /** Takes the lists of all processes. */
  note(replies: readonly (readonly RefusedTop[])[], nowMs: number): void {
    const hits = sumHits(replies);
    for (const one of this.#byId.values()) one.requests = 0;
    this.#isPartial = false;
    for (const top of mergeRules(replies)) {
      if (top.list.unlistedAtMost > 0) this.#isPartial = true;
      const { keys } = describeTop(top, top.list.entries.length, this.#hash);
      for (const [at, shown] of keys.entries()) {
        const id = clientId(top.rule, top.list.entries[at]?.key ?? '');
        const [refused = 0, all = 0] = hits.get(id) ?? [];
        this.#noteOne(id, { ...shown, rule: shown.rule ?? top.rule }, nowMs).refusedShare =
          all === 0 ? 1 : Math.min(refused / all, 1);
      }
    }
    this.#evict();
  }

  /** To be called once a second. */
  step(nowMs: number): void {
    for (const [id, { series, requests, episode }] of this.#byId) {
      const countedMs = Math.min(Math.max(nowMs - (episode.sinceMs(nowMs) ?? 0), FIRST_MS), WINDOW_MS);
      series.push([(requests * 1_000) / countedMs]);
      if (nowMs - episode.lastMs > DAY_MS) this.#byId.delete(id);
    }
  }

  /** The clients with the most refused requests in the last minute. */
  top(count: number, nowMs: number): readonly RefusedClient[] {
    return this.#refused()
      .sort((one, other) => other.requests - one.requests)
      .slice(0, count)
      .map(({ shown, requests, refusedShare, episode, series }) => ({
        ...shown,
        requests,
        refusedShare,
        sinceMs: episode.sinceMs(nowMs) ?? nowMs,
        recent: series.column('10m', 0),
      }));
  }

  /** Refused requests of a client per second, or undefined if it is not followed. */
  refusedOf(rule: string, entries: readonly Entry[], range: Range): readonly number[] | undefined {
    return this.#byId.get(clientId(rule, encodedEntries(entries)))?.series.column(range, 0);
  }

  #refused(): Followed[] {
    return [...this.#byId.values()].filter(({ requests }) => requests > 0);
  }

  #noteOne(id: string, { hits, ...shown }: ShownKey & { readonly rule: string }, nowMs: number): Followed {
    const known = this.#byId.get(id);
    const one: Followed = known ?? {
      episode: new Episode(),
      series: new Series(['mean']),
      shown,
      requests: hits,
      refusedShare: 1,
    };
    if (!known) this.#byId.set(id, one);
    one.shown = shown;
    one.requests = hits;
    one.episode.note(nowMs);
    return one;
  }

  /** Drops the clients that were refused longest ago, then those with the fewest requests. */
  #evict(): void {
    const tooMany = this.#byId.size - MAX_CLIENTS;
    if (tooMany <= 0) return;
    const byImportance = [...this.#byId].sort(
      ([, one], [, other]) => one.episode.lastMs - other.episode.lastMs || one.requests - other.requests,
    );
    for (const [id] of byImportance.slice(0, tooMany)) this.#byId.delete(id);
  }
}

const clientId = (rule: string, key: string): string => `${rule}\0${key}`;

/** For each client its refused hits and all of its hits, over all processes. */
function sumHits(replies: readonly (readonly RefusedTop[])[]): ReadonlyMap<string, readonly [number, number]> {
  const sums = new Map<string, readonly [number, number]>();
  for (const { rule, list, hits } of replies.flat())
    for (const [at, { key }] of list.entries.entries()) {
      const [refused, all] = sums.get(clientId(rule, key)) ?? [0, 0];
      const [more, moreOfAll] = hits[at] ?? [0, 0];
      sums.set(clientId(rule, key), [refused + more, all + moreOfAll]);
    }
  return sums;
}
