import '../../helpers/realm.ts';
import { describeLimit } from '../../../src/engine/rules/match/describe-limit.ts';
import type { RuleBook } from '../../../src/engine/rules/reload/book.ts';
import { openDiscoveredRules } from '../../../src/parts/xds/book.ts';
import { freePort, type Running, start } from '../../helpers/process.ts';
import { goControlPlane } from '../../helpers/tools.ts';
import { until } from '../../helpers/until.ts';

/** Tests with go-control-plane, on which most control planes are based, and its own messages for rules. */

let port: number;
let controlPlane: Running;
let book: RuleBook;

beforeEach(async () => {
  port = await freePort();
  await run();
  book = openDiscoveredRules(
    {
      serverUrl: `localhost:${port}`,
      nodeId: 'weir',
      nodeMetadata: new Map(),
      additionalHeaders: new Map(),
      tls: undefined,
      backOff: { initialMs: 100, maxMs: 200, jitter: true },
      maxMessageBytes: 4 * 1024 * 1024,
    },
    {
      mergeDomains: false,
      onLoad: () => {},
      onUp: () => {},
      onDown: () => {},
    },
  );
});
afterEach(async () => {
  book.close();
  await controlPlane.stop();
});

async function run(): Promise<void> {
  controlPlane = await start(await goControlPlane(), [`127.0.0.1:${port}`], { readsInput: true });
  await controlPlane.waitFor('listening');
}

/** Sets a snapshot with one rule of `requestsPerUnit` requests per hour for each domain. */
function set(version: string, requestsPerUnit: number, ...domains: readonly string[]): void {
  const rate_limit = { unit: 'HOUR', requests_per_unit: requestsPerUnit };
  const resources = domains.map((domain, index) => ({
    ...{ name: `r${index}`, domain, descriptors: [{ key: 'user', rate_limit, shadow_mode: true }] },
  }));
  controlPlane.write(`${JSON.stringify({ version, resources })}\n`);
}

/** Waits until these rules are current; the order of resources is random. */
async function inForce(...rules: readonly string[]): Promise<void> {
  const found = () =>
    [...(book.rules()?.rules ?? [])].map(({ path, limits }) => `${path}: ${limits.map(describeLimit).join(', ')}`);
  await until(`${rules} in force`, () => JSON.stringify(found()?.sort()) === JSON.stringify(rules));
}

test('rules can be added, changed and removed', async () => {
  set('v1', 5, 'a', 'b');
  await inForce('a.user: 5 per hour', 'b.user: 5 per hour');
  await controlPlane.waitFor('request "v1" "1" ""');
  set('v2', 6, 'b');
  await inForce('b.user: 6 per hour');
  await controlPlane.waitFor('request "v2" "2" ""');
  set('v3', 6);
  await inForce();
});

test('of an invalid snapshot only the valid domains are loaded, and the next valid one is loaded', async () => {
  set('v1', 5, 'a');
  await inForce('a.user: 5 per hour');
  set('v2', 6, 'a', 'b', 'b');
  await controlPlane.waitFor((printed) => /request "v1" "2" "r[12]: duplicate domain 'b' in config file/.test(printed));
  await inForce('a.user: 6 per hour');
  set('v3', 7, 'b');
  await inForce('b.user: 7 per hour');
});

test('a restarted control plane is subscribed to again', async () => {
  set('v1', 5, 'a');
  await inForce('a.user: 5 per hour');
  await controlPlane.stop();
  await run();
  await controlPlane.waitFor('request "v1" "" ""');
  set('v2', 6, 'a');
  await inForce('a.user: 6 per hour');
});
