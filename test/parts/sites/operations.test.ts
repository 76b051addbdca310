import '../../helpers/realm.ts';
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { SiteList } from '../../../src/operate/answers/sites.ts';
import type { ListedShare, ShareList } from '../../../src/parts/sites/answers.ts';
import { send } from '../../helpers/console.ts';
import { documentOf } from '../../helpers/documented.ts';
import { type LinkedSites, startLinkedSites, untilAnswer } from '../../helpers/linked-sites.ts';
import { until } from '../../helpers/until.ts';
import { MAIN, startWeir, type Weir } from '../../helpers/weir.ts';

const RULES = `
domain: edge
descriptors:
  - { key: tenant, rate_limit: { unit: day, requests_per_unit: 100, name: per-tenant, sites: { mode: escrow } } }
  - { key: job, rate_limit: { unit: day, requests_per_unit: 100, sites: { mode: optimistic, max_error: 10% } } }
`;

let linked: LinkedSites;
let east: Weir;
let west: Weir;
beforeAll(async () => {
  linked = await startLinkedSites(RULES, { names: ['east', 'west'], lost: ['north'] });
  [east, west] = linked.sites as [Weir, Weir]; // two were started
});
afterAll(() => linked.close());

const weirCommand = (...args: readonly string[]) =>
  promisify(execFile)(process.execPath, [MAIN, ...args], { env: { ...process.env, NO_COLOR: '1' } });
const of = ({ limits }: ShareList, rule: string): ListedShare | undefined => limits.find((one) => one.rule === rule);

/** Exchanges of the first site with the second that have failed, according to its metrics. */
async function failuresWithWest(): Promise<number> {
  const page = await (await fetch(`http://127.0.0.1:${east.debugPort}/metrics`)).text();
  return Number(/^weir_site_failures_total\{peer="west"\} (\d+)$/m.exec(page)?.[1]);
}

/** The second site in the list of the first, once their exchange works. */
async function listedWest() {
  const isInStep = ({ site, state }: SiteList['peers'][number]) => site === 'west' && state === 'in_step';
  const { peers } = await untilAnswer<SiteList>(east, 'sites', (list) => list.peers.some(isInStep));
  return peers.find(isInStep);
}

/** Uses up the base of the first site and requests more than all sites have, so that it borrows from the others. */
async function borrow(): Promise<ListedShare> {
  const tenant = [['tenant', 'acme']] as const;
  await send(east, 'edge', tenant, 34);
  await send(east, 'edge', tenant, 101);
  const answer = await untilAnswer<ShareList>(east, 'sites/limits', (list) => of(list, 'edge.tenant')?.left === 30);
  return of(answer, 'edge.tenant') as ListedShare; // checked above
}

test("the admin API lists each site's share of a limit, and the state of each site", async () => {
  expect(await borrow()).toEqual({
    ...{ domain: 'edge', entries: [{ key: 'tenant', value: 'acme' }], rule: 'edge.tenant', name: 'per-tenant' },
    ...{ limit: '100 per day', algorithm: 'fixed_window', mode: 'escrow', hasFallenBack: false, isBucket: false },
    ...{ total: 100, left: 30, leftMs: expect.any(Number), errorBound: 0 },
    sites: [
      { site: 'east', base: 34, moved: 30, share: 64, used: 34, usedMsAgo: 0 },
      { site: 'north', base: 33, moved: 0, share: 33 }, // it has never answered
      { site: 'west', base: 33, moved: -30, share: 3, used: 0, usedMsAgo: expect.any(Number) },
    ],
  });
  const failedBefore = await failuresWithWest();
  const list = await untilAnswer<SiteList>(east, 'sites', ({ peers }) =>
    peers.every(({ site, state, problem }) =>
      site === 'north' ? problem.includes('UNAVAILABLE') : state === 'in_step' && problem === '',
    ),
  );
  const documented = await documentOf(east.debugPort);
  expect(documented.flawsOfAnswer('GET /api/v1/sites', 200, list)).toEqual([]);
  const shares = await untilAnswer<ShareList>(east, 'sites/limits', () => true);
  expect(documented.flawsOfAnswer('GET /api/v1/sites/limits', 200, shares)).toEqual([]);
  expect(list).toMatchObject({ site: 'east', sites: ['east', 'north', 'west'], errorRatio: 0, errorBound: 0 });
  const [north, other] = ['north', 'west'].map((name) => list.peers.find(({ site }) => site === name));
  expect(north).toMatchObject({ state: 'cut_off', exchanges: 0, silentMs: -1, askedMsAgo: -1 });
  expect(north?.problem).toContain('UNAVAILABLE');
  expect(other).toMatchObject({ state: 'in_step', borrowed: 30, problem: '' });
  expect(other?.failures).toBeGreaterThanOrEqual(failedBefore); // 0, unless a busy machine takes longer than a second
  expect(other?.failures).toBeLessThanOrEqual(await failuresWithWest());
});

test('the lending site also lists the limit, without the usage of the other one', async () => {
  const { limits } = await untilAnswer<ShareList>(west, 'sites/limits', (list) => list.limits.length > 0);
  expect(limits[0]).toMatchObject({ rule: 'edge.tenant', left: 3 });
  expect(limits[0]?.sites).toEqual([
    { site: 'east', base: 34, moved: 30, share: 64 },
    { site: 'north', base: 33, moved: 0, share: 33 },
    { site: 'west', base: 33, moved: -30, share: 3, used: 0, usedMsAgo: 0 },
  ]);
  const inStep = ({ peers }: SiteList) => peers.some(({ site, state }) => site === 'east' && state === 'in_step');
  const { peers } = await untilAnswer<SiteList>(west, 'sites', inStep); // of a report, up to a second old
  expect(peers.find(({ site }) => site === 'east')).toMatchObject({ silentMs: -1 });
});

test('a site that has used up its advance is listed as fallen back to escrow', async () => {
  const job = [['job', 'nightly']] as const;
  while ((await send(east, 'edge', job)) === 200);
  const list = await untilAnswer<ShareList>(east, 'sites/limits', (found) => of(found, 'edge.job') !== undefined);
  expect(of(list, 'edge.job')).toMatchObject({ mode: 'optimistic', errorBound: 0.1 });
  let last = of(list, 'edge.job');
  await until('it has fallen back', async () => {
    await send(east, 'edge', job); // uses hits that west lends
    last = of(await untilAnswer<ShareList>(east, 'sites/limits', () => true), 'edge.job');
    return last?.hasFallenBack === true;
  });
  expect(last).toMatchObject({ hasFallenBack: true, left: 0 });
});

test('the command prints the sites and their shares as tables', async () => {
  await borrow();
  let [stdout, failures, untimely] = ['', -1, -1];
  await until('no exchange fails while the command runs', async () => {
    ({ failures = -1, untimely = -1 } = (await listedWest()) ?? {});
    ({ stdout } = await weirCommand('sites', '--target', `localhost:${east.debugPort}`));
    const after = await listedWest();
    return after?.failures === failures && after.untimely === untimely;
  });
  expect(stdout).toMatch(/^SITE {3}STATE .* LAG +ANSWERED +CALLED HERE +FAILED +UNTIMELY +BORROWED$/m);
  expect(stdout).toMatch(/^east {3}this one$/m);
  expect(stdout).toMatch(new RegExp(`^west {3}in step +\\d+ ms .* ${failures} +${untimely} +\\d+$`, 'm'));
  expect(stdout).toMatch(/^north {2}cut off +- +never +never +\d+ +0 +0\n {2}\d+ UNAVAILABLE/m);
  expect(stdout).toMatch(/^measured in the last minute: 0 % over the limit, declared \d+ %$/m);
  expect(stdout).toMatch(/^edge tenant=acme {2}edge\.tenant\n {2}100 per day, escrow, .* left$/m);
  expect(stdout).toMatch(/^ {2}east +34 +\+30 +64 +34 {2}this site$/m);
  expect(stdout).toMatch(/^ {2}north +33 +0 +33 +\? {2}not known in this window$/m);
  const json = await weirCommand('sites', '--json', '--count', '1', '--target', `localhost:${east.debugPort}`);
  expect(JSON.parse(json.stdout)).toMatchObject({ site: 'east', limits: [expect.anything()], more: 1 });
});

test('sites set as lost are listed as lost, and the others have their part', async () => {
  const left = await startLinkedSites(RULES, { names: ['east'], lost: ['north'], env: { SITE_LOST: 'north' } });
  const [alone] = left.sites as [Weir]; // one was started
  try {
    expect(await send(alone, 'edge', [['tenant', 'acme']], 100)).toBe(200);
    expect(await send(alone, 'edge', [['tenant', 'acme']])).toBe(429);
    const { peers, lost } = await untilAnswer<SiteList>(alone, 'sites', () => true);
    expect([peers, lost]).toEqual([[], ['north']]);
    const list = await untilAnswer<ShareList>(alone, 'sites/limits', ({ limits }) => limits.length > 0);
    expect(of(list, 'edge.tenant')).toMatchObject({ errorRatio: 0, left: 0 });
    expect(of(list, 'edge.tenant')?.sites).toEqual([
      { site: 'east', base: 100, moved: 0, share: 100, used: 100, usedMsAgo: 0 },
      { site: 'north', base: 0, moved: 0, share: 0, isLost: true },
    ]);
    const { stdout } = await weirCommand('sites', '--target', `localhost:${alone.debugPort}`);
    expect(stdout).toContain('lost by SITE_LOST: north; the others divide its part of each limit');
    expect(stdout).toMatch(/^ {2}north +0 +0 +0 +\? {2}lost$/m);
  } finally {
    await left.close();
  }
});

test('the shares of callers are for clients that may see their values', async () => {
  const [guarded, alone] = await Promise.all([
    startLinkedSites(RULES, { names: ['a'], lost: ['b'], env: { ADMIN_TOKEN: 'secret' } }),
    startWeir({ USE_STATSD: 'false' }),
  ]);
  try {
    const [first] = guarded.sites as [Weir]; // one was started
    await untilAnswer<SiteList>(first, 'sites', ({ peers }) => peers.length > 0); // with the first report of its decider
    const target = `localhost:${first.debugPort}`;
    const { stdout } = await weirCommand('sites', '--target', target);
    expect(stdout).toMatch(/^b {5}idle +- +never/m);
    expect(stdout).toMatch(/^parts are not shown: .*token/m);
    expect((await weirCommand('sites', '--target', target, '--token', 'secret')).stdout).toContain(
      'no shared limit ran low',
    );
    await expect(weirCommand('sites', '--target', `localhost:${alone.debugPort}`)).rejects.toMatchObject({
      stderr: expect.stringContaining('this is the only site: SITE is not set'),
    });
  } finally {
    await Promise.all([guarded.close(), alone.stop()]);
  }
});

test('a token for one domain lists the shares of that domain, however many others were exchanged', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'domains-'));
  const limit = '{ unit: day, requests_per_unit: 100, sites: { mode: escrow } }';
  for (const name of ['other', 'edge'])
    writeFileSync(
      join(folder, `${name}.yaml`),
      `domain: ${name}\ndescriptors: [{ key: tenant, rate_limit: ${limit} }]\n`,
    );
  const env = { RULES_PATH: folder, ADMIN_TOKEN: 'all:read:all-secret,edge:read@edge:edge-secret' };
  const guarded = await startLinkedSites(RULES, { names: ['a', 'b'], env });
  try {
    const [first] = guarded.sites as [Weir, Weir]; // two were started
    const list = async (token: string, count: number): Promise<ShareList> => {
      const headers = { authorization: `Bearer ${token}` };
      const url = `http://127.0.0.1:${first.debugPort}/api/v1/sites/limits?count=${count}`;
      return (await (await fetch(url, { headers })).json()) as ShareList; // as documented
    };
    for (const [domain, name] of [['other', 'acme'] as const, ['other', 'apex'] as const, ['edge', 'acme'] as const])
      for (const hits of [50, 101]) await send(first, domain, [['tenant', name]], hits);
    await until('three shared limits', async () => (await list('all-secret', 10)).limits.length === 3);
    const { limits, more } = await list('edge-secret', 1);
    expect({ domains: limits.map(({ domain }) => domain), more }).toEqual({ domains: ['edge'], more: 0 });
  } finally {
    await guarded.close();
    rmSync(folder, { recursive: true });
  }
});
