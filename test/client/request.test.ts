import { createGuard } from '../../client/src/middleware/guard.ts';
import { createRequest } from '../../client/src/request.ts';
import { maximumRequest } from '../../src/edge/wire/wire.ts';
import { closeAll, openClient, RULES, startService } from './service.ts';

afterAll(closeAll);

const { entries, textLength } = maximumRequest;
const entriesOf = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, at) => [`k${at}`, 'v']));

test('texts of a request are well-formed', () => {
  const { descriptors } = createRequest('demo', { user: 'a\ud800' }, 1);
  expect(descriptors).toEqual([[['user', 'a\ufffd']]]);
});

test('a descriptor has at most as many entries, and texts as long, as the service accepts', () => {
  expect(() => createRequest('demo', { user: 'x'.repeat(textLength) }, 1)).not.toThrow();
  expect(() => createRequest('demo', { user: 'x'.repeat(textLength + 1) }, 1)).toThrow(TypeError);
  expect(() => createRequest('demo', { ['x'.repeat(textLength + 1)]: 'v' }, 1)).toThrow(TypeError);
  expect(() => createRequest('demo', entriesOf(entries), 1)).not.toThrow();
  expect(() => createRequest('demo', entriesOf(entries + 1), 1)).toThrow(TypeError);
});

test.each(['grpc', 'http'] as const)(
  'over %s, no value of a key lets a request pass without being counted',
  async (by) => {
    const service = await startService(RULES);
    const client = await openClient({ target: service[by] });
    const guard = createGuard<string>({ client, domain: 'demo', key: (user) => ({ user }), cost: () => 6 });
    const origin = { peer: '192.0.2.1', forwardedFor: undefined };
    for (const user of ['a', '\ud800', '\u0000', 'é'.repeat(textLength)])
      expect(await guard(user, origin)).toMatchObject({ ok: false, status: expect.any(Number) });
    expect(await guard('x'.repeat(textLength + 1), origin)).toMatchObject({ ok: false, status: 400 });
  },
);
