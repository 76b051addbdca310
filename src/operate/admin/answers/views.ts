import { topKinds } from '../top-keys.ts';
import { nearRule, stopReason } from './explain.ts';
import {
  type AnswerSchemas,
  entries,
  fields,
  flag,
  listOf,
  number,
  oneOf,
  quota,
  shownKeys,
  text,
  time,
  whole,
} from './parts.ts';

const sampled = { unlistedAtMost: number, countedOneIn: number, confidence: number };

const unmatched = fields({
  ...{ windowSeconds: whole, requests: whole, total: whole, ...sampled },
  descriptors: listOf(
    fields(
      { domain: text, entries, count: whole, error: number, perSecond: number },
      { atMostTooLowBy: number, reason: stopReason, level: whole, why: text, nearest: listOf(nearRule) },
    ),
  ),
});

const top = fields({
  by: oneOf(...topKinds),
  windowSeconds: whole,
  rules: listOf(fields({ rule: text, total: whole, ...sampled, keys: shownKeys })),
});

const quotas = fields({ quotas: listOf(quota), more: whole });

const quantiles = { p50: number, p90: number, p99: number, p999: number, max: number };
const share = fields({ keys: number, share: number });

const advisedLimit = fields(
  {
    ...{ domain: text, rule: text, nodes: listOf(fields({ key: text }, { value: text })), at: whole, of: whole },
    ...{ text, algorithm: text, requestsPerUnit: whole, windowMs: number, shadow: flag },
    ...{ keepsAlgorithm: flag, leastLimit: number },
  },
  { name: text, burst: number },
);

const confidence = fields({
  ...{ grade: oneOf('low', 'medium', 'high'), requests: number, keys: number, oneIn: number, first: time, last: time },
  ...{ days: number, because: listOf(text) },
});

const proposal = fields(
  { algorithm: text, requestsPerUnit: whole, othersHit: share, atMostShare: number, reasons: listOf(text) },
  { burst: number, apartHit: share },
);

const advice = fields({
  limits: listOf(
    fields(
      {
        ...{ limit: advisedLimit, confidence, windows: fields(quantiles), busiest: fields(quantiles) },
        envelope: listOf(fields({ ...quantiles, intervalMs: number })),
        bursts: listOf(fields({ ...quantiles, rate: number })),
        table: listOf(
          fields({ limit: number, keysHit: number, requestsRefused: number }, { is: oneOf('now', 'proposed') }),
        ),
        refusedNow: fields({ hits: number, keys: share }),
        warnings: listOf(
          fields({ kind: oneOf('never_fires', 'fires_often', 'one_key', 'boundary', 'many_clients'), text }),
        ),
      },
      { proposal, refusal: text },
    ),
  ),
  skipped: listOf(text),
  warnings: listOf(text),
});

const portion = fields(
  { site: text, base: number, moved: number, share: number },
  { used: number, usedMsAgo: number, isLost: flag },
);

const shares = fields({
  limits: listOf(
    fields(
      {
        ...{ domain: text, entries, rule: text, limit: text, algorithm: text, mode: oneOf('escrow', 'optimistic') },
        ...{ hasFallenBack: flag, total: number, left: number, leftMs: number, errorBound: number },
        sites: listOf(portion),
      },
      { name: text, errorRatio: number },
    ),
  ),
  more: whole,
});

const sites = fields({
  ...{ site: text, sites: listOf(text), lost: listOf(text), errorRatio: number, errorBound: number },
  peers: listOf(
    fields({
      ...{ site: text, exchanges: whole, failures: whole, failing: whole, borrowed: number, untimely: whole },
      ...{ asked: whole, roundTripMs: number, problem: text, silentMs: number, askedMsAgo: number },
      state: oneOf('in_step', 'cut_off', 'idle'),
    }),
  ),
});

export const viewAnswers: AnswerSchemas = {
  'GET /api/v1/unmatched': unmatched,
  'GET /api/v1/top': top,
  'GET /api/v1/quotas': quotas,
  'GET /api/v1/advice': advice,
  'GET /api/v1/sites': sites,
  'GET /api/v1/sites/limits': shares,
};
