import type { EvidenceReport, ProxyTraffic } from '../../../src/parts/findings/evidence.ts';
import { judge } from '../../../src/parts/findings/judge.ts';

const by = { proxy: '127.0.0.1' } as ProxyTraffic['by']; // no more is known of it

const reportOf = (traffic: Partial<ProxyTraffic>, calls: EvidenceReport['calls'] = []): EvidenceReport => ({
  calls,
  pairs: [],
  lapsed: [],
  traffic: [{ domain: 'shop', by, requests: 200, shapes: new Map(), keys: new Map(), ...traffic }],
  examples: new Map(),
  jumps: [],
  bounded: [],
  children: [],
  undecided: [],
  committed: [],
});

test('connections of one proxy that reach different processes are judged together', () => {
  const reports = [
    reportOf({ shapes: new Map([['user', 200]]) }),
    reportOf({
      shapes: new Map([
        ['user', 200],
        ['path', 200],
      ]),
    }),
  ];
  expect(judge(reports, 0)).toEqual([]);
});

test('placeholders and calls without descriptors of several processes are added', () => {
  const key = { values: 30, placeholders: 30, placeholder: '-', sinceMs: 7 };
  const calls = { domain: 'shop', by, calls: [2, 0, 0, 0, 0, 0, 0], sinceMs: 5, hits: 1 };
  const one = reportOf({ keys: new Map([['user', key]]) }, [calls]);
  expect(judge([one, one], 0).map(({ kind, sinceMs }) => [kind, sinceMs])).toEqual([
    ['call_without_descriptors', 5],
    ['placeholder_values', 7],
  ]);
  const real = reportOf({ keys: new Map([['user', { ...key, placeholders: 0, sinceMs: undefined }]]) });
  expect(judge([reportOf({ keys: new Map([['user', { ...key, values: 90, placeholders: 90 }]]) }), real], 0)).toEqual(
    [],
  );
});

test('requests of a proxy without a decision are added up by reason, with the time since when', () => {
  const late = { reason: 'late' as const, by, calls: [1, 0, 0, 0, 0, 0], sinceMs: 9 };
  const lost = { reason: 'store' as const, by, calls: [0, 4, 0, 0, 0, 0], sinceMs: 7 };
  const reports = [
    { ...reportOf({}), undecided: [late, lost] },
    { ...reportOf({}), undecided: [{ ...lost, sinceMs: 5 }] },
  ];
  const found = judge(reports, 10).map(({ kind, proxy, sinceMs, problem }) => [kind, proxy, sinceMs, problem]);
  const text = (count: string, reason: string) =>
    `${count} of 127.0.0.1 in the last minute got no decision (${reason}), and passed unless it fails closed`;
  expect(found).toEqual([
    ['undecided', '127.0.0.1', 9, text('1 request', 'late')],
    ['undecided', '127.0.0.1', 5, text('8 requests', 'store')],
  ]);
});
