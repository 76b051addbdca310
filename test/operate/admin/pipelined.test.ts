import '../../helpers/realm.ts';
import { connect } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { type HttpServer, startHttpServer } from '../../../src/edge/http/server.ts';
import { operation, operationRoutes } from '../../../src/operate/admin/api.ts';
import type { AdminOptions } from '../../../src/operate/admin/options.ts';
import { unmatchedOperations } from '../../../src/parts/unmatched/operations.ts';
import { Unmatched } from '../../../src/parts/unmatched/unmatched.ts';
import { countedRules } from '../../helpers/counted-rules.ts';
import { rulesFrom } from '../../helpers/rules.ts';
import { wholeScope } from '../../helpers/scope.ts';
import { until } from '../../helpers/until.ts';

const access = { tokens: [], sessions: { of: () => undefined, open: jest.fn(), close: jest.fn() } };
let server: HttpServer | undefined;
afterEach(() => server?.close(0));

const REQUESTS = 60;
const pipelined = 'GET /api/v1/candidate/text HTTP/1.1\r\nhost: localhost\r\n\r\n'.repeat(REQUESTS);

test('pipelined requests are answered one at a time, and no longer after the client has gone', async () => {
  const ends: (() => void)[] = [];
  let asked: { readonly isGone: boolean } | undefined;
  const slow = operation('GET /api/v1/candidate/text', {
    ...{ summary: '', need: 'open', answers: '' },
    answer({ request }) {
      asked = request;
      return new Promise<{ readonly text: string }>((resolve) => ends.push(() => resolve({ text: '' })));
    },
  });
  const errors: unknown[] = [];
  const onError = (error: unknown): void => void errors.push(error);
  server = await startHttpServer(
    { host: '127.0.0.1', port: 0 },
    operationRoutes([slow], { access, rules: () => undefined, onError }),
    onError,
  );
  const client = connect(server.port, '127.0.0.1');
  client.write(pipelined);
  await until('the first answer', () => ends.length > 0);
  for (let answered = 1; answered <= 3; answered++) {
    expect(ends).toHaveLength(answered);
    ends.at(-1)?.();
    await until('the next answer', () => ends.length > answered);
  }
  client.destroy();
  await until('the server knows that the client has gone', () => asked?.isGone === true);
  ends.at(-1)?.();
  await nextTurn();
  expect(ends).toHaveLength(4);
  expect(errors).toEqual([]);
});

const VALUES = 1_000;
const rules = rulesFrom(
  `domain: shop\ndescriptors:\n${Array.from(
    { length: VALUES },
    (_, at) => `  - {key: user, value: customer-${at}, rate_limit: {unit: hour, requests_per_unit: 10}}\n`,
  ).join('')}`,
);

/** The operation that lists unmatched descriptors, after some of them; `step` is called for each text comparison. */
function unmatchedOf(descriptors: number, step: () => void, wait: () => Promise<never> | undefined = () => undefined) {
  const unmatched = new Unmatched();
  const verdict = { kind: 'no_rule', reason: 'value_differs' } as const;
  const answer = { overallCode: 'OK', verdicts: [verdict], shadowed: false, delayMs: 0 } as const;
  for (let at = 0; at < descriptors; at++)
    unmatched.answered('shop', [{ entries: [{ key: 'user', value: `custamor-${at}` }] }], answer);
  const tree = countedRules(rules, step);
  const options = {
    ask: async () => {
      await wait();
      return [{ process: 0, reply: unmatched.report() }];
    },
    requestsOfMinute: async () => descriptors,
    rules: () => tree,
    hash: undefined,
  } as unknown as AdminOptions; // the only properties that the operation reads
  const found = unmatchedOperations(options).operations.find(({ path }) => path === '/api/v1/unmatched');
  if (!found) throw new Error('there is no such operation');
  return (request: { readonly isGone: boolean }) =>
    found.answer({ client: { seesValues: true }, scope: wholeScope, query: { count: 500 }, request } as never);
}

test('a request whose processes do not reply does not delay the answers to others', async () => {
  const never = new Promise<never>(() => {});
  let asked = 0;
  const unmatched = unmatchedOf(
    1,
    () => {},
    () => (asked++ === 0 ? never : undefined),
  );
  void unmatched({ isGone: false });
  expect(await unmatched({ isGone: false })).toMatchObject({ descriptors: [{ count: 1 }] });
});
