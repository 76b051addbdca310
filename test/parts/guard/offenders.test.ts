import { type Administered, startAdministered } from '../../helpers/administered.ts';

const RULES = `
domain: edge.shop
descriptors:
  - key: remote_address
    rate_limit: { unit: year, requests_per_unit: 2 } # whose windows do not end during the test
  - key: masked_remote_address
    rate_limit: { unit: second, requests_per_unit: 0 }
  - key: trace
    not_counted: trace
    descriptors:
      - key: remote_address
        rate_limit: { unit: year, requests_per_unit: 1 }
  - key: user
    rate_limit: { unit: year, requests_per_unit: 1 }
`;

let service: Administered;
beforeAll(async () => {
  service = await startAdministered(RULES);
});
afterAll(() => service.stop());

const ask = async (count: number, ...entries: readonly (readonly [key: string, value: string])[]): Promise<void> => {
  const descriptors = [{ entries: entries.map(([key, value]) => ({ key, value })) }];
  for (let left = count; left > 0; left--) await service.ask({ domain: 'edge.shop', descriptors });
};
const list = async (query = ''): Promise<readonly string[]> => {
  const { status, body } = await service.call('GET', `/api/v1/offenders${query}`);
  expect(status).toBe(200);
  return body.offenders.map(
    (one: { address: string; refused: number; admits: number; limit: string }) =>
      `${one.address} ${one.refused} of ${one.admits}, ${one.limit}`,
  );
};

test('lists addresses that were refused many times their limit, and what is not an address never', async () => {
  await ask(2 + 19, ['remote_address', '203.0.113.1']);
  await ask(2 + 20, ['remote_address', '203.0.113.2']);
  await ask(60, ['masked_remote_address', '2001:db8:7::/64']);
  await ask(1 + 10, ['trace', 'a'], ['remote_address', '203.0.113.3']);
  await ask(30, ['user', '203.0.113.4']);
  await ask(30, ['remote_address', 'unknown']);
  expect(await list()).toEqual(['203.0.113.2 20 of 2, 2 per year', '203.0.113.3 10 of 1, 1 per year']);
  expect(await list('?times=9&rule=edge.shop.remote_address')).toEqual([
    '203.0.113.2 20 of 2, 2 per year',
    '203.0.113.1 19 of 2, 2 per year',
  ]);
  expect(await list('?times=1&rule=edge.shop.masked_remote_address')).toEqual([
    '2001:db8:7::/64 60 of 60, 0 per second',
  ]);
  expect(await list('?count=1')).toHaveLength(1);
  expect((await service.call('GET', '/api/v1/offenders?rule=edge.shop.remote')).body.detail).toMatch(
    /did you mean 'edge\.shop\.remote_address'/,
  );
});

test('overrides apply: an exempted address is no offender, and a blocked one is after ten refusals', async () => {
  const until = new Date(Date.now() + 3_600_000).toISOString();
  const put = (value: string, effect: string) =>
    service.call('PUT', '/api/v1/overrides', {
      ...{ domain: 'edge.shop', descriptor: [{ key: 'remote_address', value }], effect, until, reason: 'a test' },
    });
  await put('203.0.113.2', 'exempt');
  await put('203.0.113.5', 'block');
  await ask(10, ['remote_address', '203.0.113.5']);
  expect(await list('?rule=edge.shop.remote_address')).toEqual(['203.0.113.5 10 of 1, blocked by an override']);
});
