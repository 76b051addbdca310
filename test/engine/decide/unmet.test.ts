import '../../helpers/realm.ts';
import fc from 'fast-check';
import { createMemoryBackend } from '../../../src/engine/backends/memory/backend.ts';
import { type Answer, type Decider, decide, type RequestDescriptor } from '../../../src/engine/decide/decide.ts';
import { requestDebits } from '../../../src/engine/decide/plan.ts';
import type { RuleTree } from '../../../src/engine/rules/match/tree.ts';
import { RulesInForce } from '../../../src/engine/rules/reload/in-force.ts';
import { checkRuleFiles } from '../../../src/engine/rules/reload/load.ts';
import { createReservations } from '../../../src/parts/holds/reservations.ts';
import { createSlots } from '../../../src/parts/holds/slots.ts';
import { createKuadrantLimits } from '../../../src/parts/kuadrant/limits.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { deciderOf } from '../../helpers/decider.ts';
import { callerOf } from '../../helpers/holds-caller.ts';
import { backendThat, ledgerOf, settlingLedger } from '../../helpers/ledger.ts';
import { loadText, rulesFrom } from '../../helpers/rules.ts';

const DOMAIN = 'api';
const USERS = '{ key: customer, rate_limit: { unit: minute, requests_per_unit: 2 } }';

/** Rules that require something, and limit customers to two requests a minute. */
const rulesOf = (require: string, nodes = USERS): RuleTree =>
  rulesFrom(`domain: ${DOMAIN}\nrequire: ${require}\ndescriptors:\n  - ${nodes}\n`);

/** `user=alice,path=/a` has two entries. */
const descriptor = (text: string, hits = 1): RequestDescriptor => ({
  entries: text.split(',').map((entry) => {
    const [key = '', value = ''] = entry.split('=');
    return { key, value };
  }),
  requestLimit: undefined,
  hits,
});

const requestOf = (sent: readonly (string | RequestDescriptor)[]) => ({
  domain: DOMAIN,
  descriptors: sent.map((one) => (typeof one === 'string' ? descriptor(one) : one)),
});

const ask = async (decider: Decider, ...sent: readonly (string | RequestDescriptor)[]): Promise<Answer> =>
  decide(requestOf(sent), decider, 1_000);

/** An answer in short: its code, the rule of each descriptor, and what the request lacks. */
const shown = ({ overallCode, verdicts, unmet }: Answer): string =>
  [
    overallCode,
    ...verdicts.map((verdict) => ('rule' in verdict ? verdict.rule.path : '-')),
    ...(unmet?.missing.map(({ requirement }) => `lacks ${requirement.keys.join('|')}`) ?? []),
  ].join(' ');

test.each([
  ['[customer]', ['customer=a'], 'OK api.customer'],
  ['[customer]', ['generic_key=all'], 'OVER_LIMIT api.missing_customer lacks customer'],
  ['[customer]', ['generic_key=all', 'customer=a'], 'OK - api.customer'],
  ['[customer]', ['customer='], 'OVER_LIMIT api.missing_customer lacks customer'],
  ['[[user], [api_key]]', ['user=a'], 'OK -'],
  ['[[user], [api_key]]', ['path=/,api_key=k'], 'OK -'],
  ['[[user], [api_key]]', ['path=/'], 'OVER_LIMIT api.missing_user_or_api_key lacks user|api_key'],
  ['[org, user]', ['org=o', 'user=u'], 'OK - -'],
  ['[org, user]', ['org=o'], 'OVER_LIMIT api.missing_org_and_user lacks org,user'],
  ['{ keys: [customer], otherwise: allow }', ['path=/'], 'OK - lacks customer'],
  [
    '{ keys: [customer], limit: { unit: minute, requests_per_unit: 1 } }',
    ['path=/'],
    'OK api.missing_customer lacks customer',
  ],
])('%s answers %j with %s', async (require, sent, expected) => {
  const answer = await ask(deciderOf(rulesOf(require)), ...sent);
  expect(shown(answer)).toBe(expected);
  expect(answer.verdicts).toHaveLength(sent.length);
});

test('requests without the keys share a strict limit by address, beside the rules that they match', async () => {
  const require = '{ keys: [customer], per: [remote_address], limit: { unit: minute, requests_per_unit: 1 } }';
  const decider = deciderOf(rulesOf(require, '{ key: path, rate_limit: { unit: minute, requests_per_unit: 2 } }'));
  const from = (address: string) => ask(decider, `remote_address=${address}`, 'path=/a').then(shown);
  const limited = 'api.missing_customer.remote_address api.path lacks customer';
  expect([await from('10.0.0.1'), await from('10.0.0.1')]).toEqual([`OK ${limited}`, `OVER_LIMIT ${limited}`]);
  expect(await from('10.0.0.2')).toBe(`OVER_LIMIT ${limited}`); // its own counter has room, that of the path has not
  const withCustomer = await ask(decider, 'customer=c', 'path=/b');
  expect(withCustomer.unmet).toBeUndefined();
});

test('a request whose descriptors all match rules is counted by the requirement as well', async () => {
  const require = '{ keys: [customer], limit: { unit: minute, requests_per_unit: 1 } }';
  const decider = deciderOf(rulesOf(require, '{ key: path, rate_limit: { unit: minute, requests_per_unit: 2 } }'));
  const answers = [await ask(decider, 'path=/'), await ask(decider, 'path=/'), await ask(decider, 'path=/')];
  expect(answers.map(shown)).toEqual([
    'OK api.missing_customer lacks customer', // tighter: nothing is left of it
    'OVER_LIMIT api.missing_customer lacks customer',
    'OVER_LIMIT api.path lacks customer', // none is tighter
  ]);
  const [verdict] = answers[2]?.verdicts ?? [];
  expect(verdict?.kind === 'limited' && verdict.beside).toMatchObject({
    rule: { path: 'api.missing_customer' },
    code: 'OVER_LIMIT',
  });
});

test("a node requires keys of the requests that pass it, and adds to the domain's requirement", async () => {
  const nodes = '{ key: route, value: pay, require: [user], rate_limit: { unit: minute, requests_per_unit: 9 } }';
  const decider = deciderOf(rulesOf('{ keys: [customer], otherwise: allow }', nodes));
  expect(shown(await ask(decider, 'route=pay', 'user=u', 'customer=c'))).toBe('OK api.route_pay - -');
  expect(shown(await ask(decider, 'route=other', 'customer=c'))).toBe('OK - -');
  expect(shown(await ask(decider, 'route=pay', 'customer=c'))).toBe(
    'OVER_LIMIT - api.route_pay.missing_user lacks user', // a refused request counts nowhere else
  );
  expect(shown(await ask(decider, 'route=pay,x=y'))).toBe(
    'OVER_LIMIT api.route_pay.missing_user lacks customer lacks user',
  );
});

test('requests are refused while the store fails, and a release is never lacking', async () => {
  const failing = backendThat(async (operations) => operations.map(() => ({ code: 'UNAVAILABLE', reason: 'down' })));
  const decider = deciderOf(rulesOf('[customer]'), { ledger: settlingLedger(failing, fakeClock(), {}) });
  expect(shown(await ask(decider, 'path=/', 'customer='))).toBe('OVER_LIMIT api.missing_customer - lacks customer');
  expect(shown(await ask(deciderOf(rulesOf('[customer]')), descriptor('path=/', 0)))).toMatch('OVER_LIMIT'); // a peek
  expect(shown(await ask(deciderOf(rulesOf('[customer]')), descriptor('path=/', -1)))).toBe('OK -');
});

test('charges that are counted late, and those of Kuadrant, count under the limit of the requirement', async () => {
  const decider = deciderOf(
    rulesOf('{ keys: [customer], per: [address], limit: { unit: minute, requests_per_unit: 5 } }'),
  );
  const sent = requestOf([descriptor('address=a', 3)]);
  expect(
    requestDebits(sent, decider).map(({ hits, key }) => [hits, key.includes('7:missing|8:customer|7:address|1:a')]),
  ).toEqual([[3, true]]);
  const ledger = ledgerOf(createMemoryBackend(fakeClock(), { maxCounters: 10 }));
  const slots = { ...decider, ledger };
  const kuadrant = createKuadrantLimits(slots, createReservations(slots));
  await kuadrant.report(sent, callerOf());
  expect((await kuadrant.check(sent, callerOf())).overallCode).toBe('OVER_LIMIT');
  expect((await kuadrant.check(requestOf(['address=b']), callerOf())).overallCode).toBe('OK');
});

test('neither slots nor reservations are given to requests without the keys', async () => {
  const rules = rulesOf(
    '[customer]',
    `key: queue
    descriptors:
      - { key: job, not_counted: hold, rate_limit: { algorithm: in_flight, requests_per_unit: 2, ttl: 30s } }
  - key: tenant
    descriptors:
      - { key: job, not_counted: hold, rate_limit: { unit: minute, requests_per_unit: 9, reserve: { ttl: 30s } } }`,
  );
  const decider = { ...deciderOf(rules), ledger: ledgerOf(createMemoryBackend(fakeClock(), { maxCounters: 10 })) };
  const [slots, reservations] = [createSlots(decider), createReservations(decider)];
  const acquire = (...sent: readonly string[]) => slots.acquire(requestOf(sent), 0, callerOf());
  const reserve = (...sent: readonly string[]) => reservations.reserve(requestOf(sent), callerOf());
  expect(await acquire('queue=q,job=1')).toMatchObject({ held: false, ttlMs: 30_000 });
  expect(await acquire('queue=q,job=1', 'customer=c')).toMatchObject({ held: true });
  await slots.release(requestOf(['queue=q,job=1']), callerOf());
  expect(await reserve('tenant=t,job=1')).toMatchObject({ reserved: false, hits: 1 });
  expect(await reserve('tenant=t,job=1', 'customer=c')).toMatchObject({ reserved: true });
});

const text = fc.constantFrom('a', 'b', 'customer', 'user', '');
const anyDescriptor = fc
  .array(fc.tuple(fc.constantFrom('a', 'b', 'customer', 'user'), text), { minLength: 1, maxLength: 3 })
  .map((entries) => descriptor(entries.map((pair) => pair.join('=')).join(',')));
const anySent = fc.array(anyDescriptor, { minLength: 1, maxLength: 3 });

test('requests with the keys are answered as without require, and others are always refused', async () => {
  const nodes = `key: a
    rate_limit: { unit: minute, requests_per_unit: 2 }
    descriptors: [{ key: b, rate_limit: { unit: minute, requests_per_unit: 1 } }]`;
  const plain = rulesFrom(`domain: ${DOMAIN}\n# as many lines\ndescriptors:\n  - ${nodes}\n`);
  const requiring = rulesOf('[[customer, user], [b]]', nodes);
  await fc.assert(
    fc.asyncProperty(fc.array(anySent, { minLength: 1, maxLength: 6 }), async (requests) => {
      const [one, other] = [deciderOf(plain), deciderOf(requiring)];
      for (const sent of requests) {
        const carried = new Set(
          sent.flatMap(({ entries }) => entries.flatMap(({ key, value }) => (value === '' ? [] : key))),
        );
        const isMet = (carried.has('customer') && carried.has('user')) || carried.has('b');
        const got = await ask(other, ...sent);
        if (!isMet) expect([got.overallCode, got.unmet?.missing.length]).toEqual(['OVER_LIMIT', 1]);
        else expect(JSON.stringify(got)).toBe(JSON.stringify(await ask(one, ...sent))); // the refused ones count nowhere
      }
    }),
    { seed: 50, numRuns: 300 },
  );
});

const PACKED = `domain: ${DOMAIN}
require: { keys: [[user], [api_key]], per: [remote_address], limit: { unit: minute, requests_per_unit: 1 } }
descriptors:
  - { key: route, value: pay, require: { keys: [card], otherwise: allow }, rate_limit: { unit: hour, requests_per_unit: 7 } }
`;

test('rules that were sent to another process require the same', async () => {
  const checked = checkRuleFiles([{ path: 'r.yaml', name: 'r.yaml', text: PACKED }], { mergeDomains: false });
  if (!checked.ok) throw new Error('expected valid rules');
  const sent = new RulesInForce().replaceAtOnce(structuredClone(checked.packed));
  for (const rules of [sent, rulesFrom(PACKED)])
    expect(shown(await ask(deciderOf(rules), 'route=pay,remote_address=a'))).toBe(
      'OK api.missing_user_or_api_key.remote_address lacks user|api_key lacks card',
    );
  expect(sent.domains.get(DOMAIN)?.requirements).toEqual(rulesFrom(PACKED).domains.get(DOMAIN)?.requirements);
});

test('an overlay changes the limit of a requirement, but not the requirement', async () => {
  const text = `domain: ${DOMAIN}
require: { keys: [customer], per: [address], limit: { unit: minute, requests_per_unit: 1 } }
`;
  const node =
    '{ key: missing, value: customer, descriptors: [{ key: address, rate_limit: { unit: minute, requests_per_unit: 2 } }] }';
  const laid = (overlay: string) =>
    loadText(text, { overlay: [{ name: 'overlay.yaml', text: `domain: ${DOMAIN}\n${overlay}\n` }] });
  const loaded = laid(`descriptors: [${node}]`);
  if (!loaded.ok) throw new Error(loaded.problems.map(({ message }) => message).join());
  const decider = deciderOf(loaded.rules);
  const codes = [1, 2, 3].map(() => ask(decider, 'address=a').then(({ overallCode }) => overallCode));
  expect(await Promise.all(codes)).toEqual(['OK', 'OK', 'OVER_LIMIT']);
  const refused = laid('require: [user]');
  expect(refused.ok ? [] : refused.problems.map(({ message }) => message)).toEqual([
    'cannot be overlaid: only the rules define which limits and counters exist',
  ]);
});

test('two files of a domain cannot both have require', () => {
  const files = ['customer', 'user'].map((key, at) => ({
    path: `${at}.yaml`,
    name: `${at}.yaml`,
    text: `domain: ${DOMAIN}\nrequire: [${key}]\n`,
  }));
  const checked = checkRuleFiles(files, { mergeDomains: true });
  expect(checked.ok ? [] : checked.problems.map(({ message }) => message)).toEqual([
    'must be given once for all files of a domain, got a second one',
  ]);
});

test.each([
  ['require: []', 'at least one text, got a list'],
  ['require: [[user], []]', 'at least one text, got a list'],
  ['require: [user*]', "required keys are literal and not empty, got 'user*'"],
  ['require: { otherwise: allow }', 'must be a list such as [customer], got none'],
  ['require: { keys: [a], otherwise: deny }', "must be refuse or allow, got 'deny'"],
  ['require: { keys: [a], per: [b] }', 'goes with limit, got no limit'],
  [
    'require: { keys: [a], otherwise: allow, limit: { unit: day, requests_per_unit: 1 } }',
    'cannot be used with limit: remove one of them',
  ],
  [
    'require: { keys: [a], limit: { algorithm: in_flight, requests_per_unit: 1, ttl: 9s } }',
    'in_flight cannot be used here: nothing releases its slots',
  ],
  ['require: { keys: [a], limit: { unit: eon, requests_per_unit: 1 } }', "invalid rate limit unit 'eon'"],
])('%s is an error: %s', (line, message) => {
  const loaded = loadText(`domain: d\n${line}\ndescriptors:\n  - ${USERS}\n`);
  expect(loaded.ok ? [] : loaded.problems.map((problem) => problem.message)).toEqual([
    expect.stringContaining(message),
  ]);
});
