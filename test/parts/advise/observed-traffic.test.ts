import { RuleSketches } from '../../../src/parts/advise/rule-sketches.ts';
import { ReplayEngine } from '../../../src/parts/replay/engine.ts';
import type { RecordedRequest } from '../../../src/parts/replay/request.ts';
import { rulesFrom } from '../../helpers/rules.ts';

const AT_MS = 1_700_000_040_000; // the start of a minute
const rules = rulesFrom(`domain: demo
descriptors:
  - key: user
    shadow_mode: true
    rate_limits:
      - { unit: second, requests_per_unit: 2 }
      - { unit: minute, requests_per_unit: 3 }
  - key: file
    value: "public/*"
    share_threshold: true
    rate_limit: { unit: minute, requests_per_unit: 3 }
  - key: path
    rate_limit: { unit: minute, requests_per_unit: 3 }
`);

const createRequest = (key: string, value: string, hits = 1): RecordedRequest => ({
  timeMs: AT_MS,
  request: { domain: 'demo', descriptors: [{ entries: [{ key, value }], requestLimit: undefined, hits }] },
});

const memory = { maxCounters: 1_000, maxBytes: 2 ** 20 };

test('each limit of a rule is summarized by its own window, and refusals in shadow mode count', () => {
  const sketches = new RuleSketches({ keys: 100, keysOfRule: 100, admittedKeys: 100 }, 1);
  sketches.follow(rules);
  const engine = new ReplayEngine(rules, { shadowMode: false, quotaMode: false, spend: 'each', memory });
  const requests = [
    ...['ann', 'ann', 'ann', 'ann'].map((user) => createRequest('user', user)),
    createRequest('user', 'ann', 0),
    createRequest('user', 'ann', -1),
    createRequest('file', 'public/a'),
    createRequest('file', 'public/b'),
    createRequest('other', 'x'),
  ];
  for (const request of requests) sketches.observe(request, engine.answer(request));
  const all = [...sketches.advice({ maxKeysHit: 0.01, shownKey: (key) => key })];
  expect(
    all.map(({ limit, confidence, refusedNow, busiest }) => ({
      rule: limit.rule,
      windowMs: limit.windowMs,
      keys: confidence.keys,
      refused: refusedNow.hits,
      busiest: busiest.max,
    })),
  ).toEqual([
    { rule: 'demo.user', windowMs: 1_000, keys: 1, refused: 1, busiest: 4 },
    { rule: 'demo.user', windowMs: 60_000, keys: 1, refused: 1, busiest: 4 },
    { rule: 'demo.file_public/*', windowMs: 60_000, keys: 1, refused: 0, busiest: 2 },
  ]);
  expect(sketches.skipped()).toEqual(['demo.path: no request met it']);
});

test('a limit whose window changes starts again, and the others continue', () => {
  const sketches = new RuleSketches({ keys: 100, keysOfRule: 100, admittedKeys: 100 }, 1);
  sketches.follow(rules);
  const arrival = { key: 'k', hits: 1, timeMs: AT_MS, refusedBy: undefined, client: undefined, level: 0 };
  for (const rule of ['demo.user', 'demo.path']) sketches.add({ ...arrival, rule });
  const changed = rulesFrom(`domain: demo
descriptors:
  - { key: user, rate_limits: [{ unit: second, requests_per_unit: 9 }, { unit: hour, requests_per_unit: 3 }] }
`);
  sketches.follow(changed);
  const all = [...sketches.advice({ maxKeysHit: 0.01, shownKey: (key) => key })];
  expect(all.map(({ limit }) => [limit.rule, limit.windowMs, limit.requestsPerUnit])).toEqual([
    ['demo.user', 1_000, 9],
  ]);
});

test('hits that a higher limit let pass before it was lowered are not attributed to the lower one', () => {
  const limit = (requests: number) =>
    rulesFrom(`domain: demo
descriptors:
  - { key: user, rate_limit: { unit: minute, requests_per_unit: ${requests} } }
`);
  const sketches = new RuleSketches({ keys: 100, keysOfRule: 100, admittedKeys: 100 }, 1);
  const arrive = (hits: number, refusedBy?: number): void =>
    sketches.add({ rule: 'demo.user', key: 'k', hits, timeMs: AT_MS, refusedBy, client: undefined, level: 0 });
  const explanations = (): readonly string[] =>
    [...sketches.advice({ maxKeysHit: 0.01, shownKey: (key) => key })].flatMap(({ warnings }) =>
      warnings.map(({ kind }) => kind),
    );
  sketches.follow(limit(1_000));
  arrive(186);
  arrive(1, 60_000);
  sketches.follow(limit(60));
  arrive(10);
  expect(explanations()).not.toContain('boundary');
  arrive(60);
  expect(explanations()).toContain('boundary');
});
