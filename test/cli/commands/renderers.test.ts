import '../../helpers/realm.ts';
import fc from 'fast-check';
import { descriptorText, parseDescriptor } from '../../../src/edge/listing/descriptor-text.ts';
import { renderAudit } from '../../../src/parts/audit/command.ts';
import { renderCandidate, renderCandidateDiff } from '../../../src/parts/candidate/render-candidate.ts';
import { renderCounters } from '../../../src/parts/counters/render.ts';
import { renderExplanation } from '../../../src/parts/explain/render.ts';
import type { ExplainedLimit } from '../../../src/parts/lab/answers/explain.ts';
import { show } from '../../../src/parts/lab/commands/client.ts';
import { forTerminal } from '../../../src/parts/lab/commands/for-terminal.ts';
import type { Paint } from '../../../src/parts/lab/commands/paint.ts';
import { renderOverride, renderOverrides, renderRemoved } from '../../../src/parts/overrides/command.ts';
import { renderQuotas } from '../../../src/parts/quotas/command.ts';
import { renderNewRefusals, renderRefusals } from '../../../src/parts/refusals/command.ts';
import { renderSites } from '../../../src/parts/sites/command.ts';
import { renderStatus } from '../../../src/parts/status/command.ts';
import { renderTop } from '../../../src/parts/top/command.ts';
import { renderUnmatched } from '../../../src/parts/unmatched/command.ts';
import { anyText } from '../../helpers/texts.ts';

interface Texts {
  readonly text: string;
  readonly other: string;
  readonly entries: readonly { readonly key: string; readonly value: string }[];
}

const entries = fc.array(fc.record({ key: anyText, value: anyText }), { maxLength: 3 });
const texts: fc.Arbitrary<Texts> = fc.record({ text: anyText, other: anyText, entries });

/** Texts that give the same lines but need no escapes. */
const calm = ({ text, other, entries: own }: Texts): Texts => ({
  ...{ text: text && 'x', other: other && 'x' },
  entries: own.map(({ key, value }) => ({ key: key && 'x', value: value && 'x' })),
});

const state = { used: 1, remaining: 2, resetsInMs: 3, onHold: 1, open: 1 };
const bounds = { atMostTooHighBy: 1, atMostTooLowBy: 1 };

/** The input of each renderer, made of a few texts of callers. */
function madeOf({ text, other, entries: own }: Texts) {
  const near = { rule: text, file: other, line: 3, descriptor: own };
  const override = {
    ...{ domain: text, descriptor: descriptorText(own), entries: own },
    ...{ effect: 'block', until: other, by: text, reason: other },
  };
  const limit: ExplainedLimit = {
    ...{ rule: text, file: other, name: text, limit: other, algorithm: 'fixed_window', active: text },
    ...{ replacedBy: [], counter: text, code: 'OVER_LIMIT', source: 'backend', before: state, after: state },
    ...{ arithmetic: other, retryAfterMs: 5 },
  };
  const quota = { domain: text, entries: own, rule: other, proxy: text, assigned: 'share', share: 3 };
  const explanation = {
    ...{ status: 429, error: text, rules: { version: text, source: other } },
    descriptors: [
      {
        ...{ entries: own, hits: 1, outcome: 'limited', rule: text, changesAt: other, override, limits: [limit] },
        path: own.map((entry, at) => ({ level: at, entry, tried: [{ ...entry, matched: at % 2 === 0 }], more: 1 })),
        stopped: { level: 1, reason: 'no_such_key', why: text, nearest: [near] },
        quotas: [quota],
      },
    ],
    workers: [{ process: text, status: 200, sources: [other] }],
  };
  const tally = { requests: 1, liveRefused: 1, candidateRefused: 1, newlyRefused: 1, newlyPassed: 1 };
  const keys = { count: 1, isAtLeast: false, keys: [{ descriptor: text, hits: 1, ...bounds }] };
  return { text, other, own, near, override, limit, quota, explanation, tally, keys };
}
type Made = ReturnType<typeof madeOf>;
type View = readonly [sent: object, render: (found: never, paint: Paint) => string];

/** Each renderer with a service's answer, as `show` prints it. */
const views: Readonly<Record<string, (of: Made) => View>> = {
  unmatched: ({ text, own, near }) => [
    {
      ...{ requests: 1, total: 1, countedOneIn: 4, confidence: 0.9 },
      descriptors: [{ domain: text, entries: own, count: 1, error: 1, perSecond: 1, why: text, nearest: [near] }],
    },
    renderUnmatched,
  ],
  top: ({ text, other }) => [
    {
      by: 'hits',
      rules: [{ rule: text, total: 1, countedOneIn: 1, keys: [{ descriptor: other, hits: 1, ...bounds }] }],
    },
    renderTop,
  ],
  counters: ({ text, own, limit }) => [
    { domain: text, entries: own, counters: [{ ...limit, ...state, before: state }] },
    renderCounters,
  ],
  page: ({ text, own, other }) => [
    { looked: 1, counters: [{ domain: text, entries: own, limit: other, ...state }], next: text },
    renderCounters,
  ],
  audit: ({ text, other, override }) => [
    {
      changes: [
        { at: text, who: other, change: text, what: { [text]: other }, reason: text, failed: other },
        { at: text, who: other, change: text, what: override, reason: text, before: null, after: override },
        { at: text, who: other, change: text, what: {}, reason: text, after: { rules: 1, hash: text } },
      ],
    },
    renderAudit,
  ],
  removed: ({ override }) => [override, renderRemoved],
  status: ({ text, other }) => [
    {
      ...{ health: 'failing', version: text, startedAt: other, atMs: 1, undecided: { [text]: 1 } },
      findings: [{ level: 'failing', problem: text, advice: other }],
      situation: { level: 'failing', text, clauses: [text] },
      incidents: [{ kind: 'outage', since: other, until: text, text, offered: 2, undecided: 1 }],
      lastMinute: { offered: 4, passed: 1, refused: 1, undecided: 1, degraded: 1, unmatched: 0 },
      store: { description: text, failures: 1, openCircuits: [other], isUp: false, reason: text },
      rules: { source: text, count: 1, pending: 'invalid', problems: [other], hash: text, loadedAt: other },
      overrides: { count: 1, nextEnd: text },
      candidate: { state: 'on', hash: text, loadedAt: other },
      workers: { expected: 1, restarts: 1 },
      background: [
        { name: 'usage', does: text, since: other, reason: text },
        { name: 'findings', does: other },
      ],
      memory: [{ kind: 'use', owner: text, bytes: 1, maxBytes: 2, counters: 3 }],
      instances: [
        { name: text, version: other, rules: text, startedAtMs: 1, decisionsPerSecond: 1, refusedPerSecond: 1 },
      ],
      instancesNote: text,
    },
    renderStatus,
  ],
  override: ({ override }) => [override, renderOverride],
  overrides: ({ override }) => [{ overrides: [override, override] }, renderOverrides],
  refusals: ({ text, own, limit, other }) => [
    {
      ...{ dropped: 1, more: 1, lost: 0 },
      refusals: [
        {
          ...{ atMs: 1, domain: text, requestId: other, descriptors: [{ ...limit, entries: own, outcome: 'limited' }] },
          wouldRefuse: [{ descriptor: 0, rule: text, name: other, limit: text, reason: 'shadow' }],
        },
      ],
    },
    renderRefusals,
  ],
  'refusals that follow': ({ text, own, limit }) => [
    {
      ...{ dropped: 1, more: 0, lost: 1 },
      refusals: [{ atMs: 1, domain: text, descriptors: [{ ...limit, entries: own, outcome: 'limited' }] }],
    },
    renderNewRefusals,
  ],
  explanation: ({ explanation }) => [explanation, renderExplanation],
  quotas: ({ quota }) => [{ quotas: [quota], more: 1 }, renderQuotas],
  sites: ({ text, own, other }) => [
    {
      sites: {
        ...{ site: text, errorRatio: 0, errorBound: 1, lost: [text] },
        peers: [
          {
            site: other,
            state: 'cut_off',
            roundTripMs: 1,
            silentMs: 1,
            askedMsAgo: 1,
            problem: text,
            failures: 0,
            untimely: 0,
            borrowed: 0,
          },
        ],
      },
      shares: {
        more: 0,
        limits: [
          {
            ...{ domain: text, entries: own, limit: other, rule: text, mode: 'escrow', leftMs: 1 },
            sites: [{ site: text, base: 1, moved: 1, share: 1 }],
          },
        ],
      },
    },
    renderSites,
  ],
  candidate: ({ text, other, tally, keys }) => [
    {
      ...{ state: 'on', from: text, by: other, reason: text, hash: other, domains: [text], ruleCount: 1, sample: 1 },
      problems: [{ severity: 'error', file: text, line: 1, path: other, message: text }],
      ...{
        moreProblems: 0,
        since: text,
        dropped: { behind: 0, overload: 0 },
        failed: 0,
        withheld: 0,
        evicted: 0,
        totals: tally,
      },
      rules: [
        { ...tally, rule: text, inLive: true, inCandidate: false, newlyRefusedKeys: keys, newlyPassedKeys: keys },
      ],
      moreRules: 0,
    },
    renderCandidate,
  ],
  'candidate diff': ({ text, other }) => [
    {
      added: [{ rule: { path: text }, counters: [{ limit: other, counters: 'new' }] }],
      removed: [{ rule: { path: text }, after: other }],
      changed: [{ after: { path: text }, counters: [] }],
    },
    renderCandidateDiff,
  ],
};

function printed(json: boolean, [found, render]: View): string {
  let text = '';
  const print = (one: string): void => {
    text = one;
  };
  const renderAny = render as (found: object, paint: Paint) => string; // each accepts the object beside it
  show({ json }, found, renderAny, { print, isTerminal: true, env: {} });
  return text;
}

/** The escape sequences of the program itself. */
const COLOURS = new RegExp(String.raw`${'\u001b'}\[\d+m`, 'g');
const CONTROLS = /[^\P{Cc}\n]|[\p{Cs}\p{Zl}\p{Zp}\p{Bidi_Control}]/u;

test.each(Object.entries(views))(
  'no text of %s reaches the terminal with control characters, nor adds a line',
  (_, view) => {
    fc.assert(
      fc.property(texts, (drawn) => {
        const text = printed(false, view(madeOf(drawn))).replace(COLOURS, '');
        expect(text).not.toMatch(CONTROLS);
        const lines = printed(false, view(madeOf(calm(drawn)))).split('\n');
        expect(text.split('\n')).toHaveLength(lines.length);
      }),
    );
  },
);

test('JSON has the original texts, without control characters', () => {
  fc.assert(
    fc.property(texts, (drawn) => {
      const { explanation } = madeOf(drawn);
      const json = printed(true, [explanation, () => '']);
      expect(json).not.toMatch(CONTROLS);
      expect(JSON.parse(json)).toEqual(JSON.parse(JSON.stringify(explanation)));
    }),
  );
});

test('the descriptor that a view prints is read back unchanged', () => {
  fc.assert(
    fc.property(entries, (own) => {
      fc.pre(own.length > 0 && own.every(({ key }) => key !== ''));
      const view: View = [{ domain: 'd', entries: own, counters: [] }, renderCounters];
      const written = printed(false, view).replace(COLOURS, '');
      expect(parseDescriptor(written.slice(2))).toEqual(own);
    }),
  );
});

test('a page with only a count of dropped refusals says once that none is kept', () => {
  const page = { refusals: [], dropped: 3, more: 0, lost: 0 };
  const note = '3 more were not kept: there were more than 100 in a second';
  expect(printed(false, [page, renderRefusals]).replace(COLOURS, '')).toBe(`no matching refusals\n${note}`);
  expect(printed(false, [page, renderNewRefusals]).replace(COLOURS, '')).toBe(note);
});

test('descriptors without a rule are listed even if no request is counted', () => {
  const one = { domain: 'demo', entries: [{ key: 'usr', value: 'a' }], count: 1, error: 0, atMostTooLowBy: 0 };
  const view = (...descriptors: readonly object[]): View => [{ requests: 0, total: 1, descriptors }, renderUnmatched];
  expect(printed(false, view())).toBe('no request arrived in the last minute: try weir doctor');
  expect(printed(false, view(one))).toContain('usr=a');
});

test('header fields to add are shown unchanged, not as entries of a descriptor', () => {
  const field = { key: 'x-a', value: 'a, b\\\u001b' };
  const shown = forTerminal({ answer: { responseHeadersToAdd: [field] }, entries: [field] });
  expect(shown.answer.responseHeadersToAdd).toEqual([{ key: 'x-a', value: String.raw`a, b\\x1b` }]);
  expect(shown.entries).toEqual([{ key: 'x-a', value: String.raw`a\, b\\\x1b` }]);
});
