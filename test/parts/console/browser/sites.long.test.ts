import '../../../helpers/realm.ts';
import { mkdirSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Locator } from 'playwright-core';
import { accessibilityViolations, overflowOf, startBrowser, type TestBrowser } from '../../../helpers/browser.ts';
import { openLocally, send, viewAt } from '../../../helpers/console.ts';
import { type LinkedSites, startLinkedSites } from '../../../helpers/linked-sites.ts';
import { eventually } from '../../../helpers/until.ts';
import type { Weir } from '../../../helpers/weir.ts';

const RULES = `
domain: edge
descriptors:
  - { key: tenant, rate_limit: { unit: hour, requests_per_unit: 6000, name: per-tenant, sites: { mode: escrow } } }
  - { key: job, rate_limit: { unit: hour, requests_per_unit: 600, sites: { mode: optimistic, max_error: 5% } } }
  - key: api
    rate_limit: { unit: second, requests_per_unit: 100, algorithm: token_bucket, burst: 300, sites: { mode: escrow } }
`;

/** UPDATE_SCREENSHOTS=1 saves pictures in the docs; otherwise they go to a folder that is removed. */
const isUpdate = process.env.UPDATE_SCREENSHOTS === '1';

let folder: string;
let linked: LinkedSites;
let east: Weir;
let browser: TestBrowser;
let load: ReturnType<typeof setInterval>;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'console-'));
  browser = await startBrowser();
  linked = await startLinkedSites(RULES, { names: ['eu-west', 'us-east'], lost: ['ap-south'] });
  const [first, second] = linked.sites as [Weir, Weir]; // two were started
  east = first;
  await send(second, 'edge', [['tenant', 'acme']], 340);
  await send(first, 'edge', [['tenant', 'acme']], 2_000);
  await send(first, 'edge', [['tenant', 'acme']], 900);
  const demand = () =>
    Promise.all([
      send(first, 'edge', [['tenant', 'acme']], 2_500), // more than is left
      send(first, 'edge', [['job', 'nightly']], 7),
      send(first, 'edge', [['job', 'nightly']]),
      send(first, 'edge', [['api', 'search']], 12),
    ]).catch(() => []); // the service may stop first
  load = setInterval(() => void demand(), 100);
});
afterAll(async () => {
  clearInterval(load);
  await browser.close();
  await linked.close();
});
afterEach(async () => expect(await browser.endTest()).toEqual([]));

/** Waits until one of the elements has the text: a site whose answer is late for a moment is shown as late. */
async function untilShown(elements: Locator, text: RegExp): Promise<void> {
  let shown: readonly string[] = [];
  await eventually(
    async () => {
      shown = await elements.allInnerTexts();
      return shown.some((one) => text.test(one));
    },
    () => `${text} in ${JSON.stringify(shown)}`,
  );
}

test('the view shows sites, their shares of limits, and notices of failures', async () => {
  const page = await browser.open();
  await openLocally(page, east);
  await page.goto(viewAt(east, 'sites'));
  await page.getByText('ap-south has never answered').waitFor();
  const rowOf = (site: string) => page.getByRole('row', { name: new RegExp(`^${site} (In step|Cut off)`) });
  await untilShown(rowOf('us-east'), /In step\s+[\d.]+ ms\s+now/);
  await untilShown(rowOf('ap-south'), /Cut off\s+–\s+never/);
  await untilShown(page.locator('.notice.bad'), /stays reserved for it.*UNAVAILABLE/s);
  await page.getByText('Fell back to escrow').waitFor();
  const tenant = page.locator('.shared-limit').filter({ hasText: 'tenant=acme' });
  await tenant.getByRole('row').filter({ hasText: 'us-east' }).filter({ hasText: '−' }).waitFor();
  expect(await tenant.innerText()).toContain('Escrow');
  expect(await tenant.getByRole('row').filter({ hasText: 'ap-south' }).innerText()).toContain('unknown');
  expect(await tenant.getByRole('img').first().getAttribute('aria-label')).toMatch(
    /^ap-south: a share of 2,000, use unknown/,
  );
  await page.getByRole('navigation').getByRole('link', { name: 'Sites' }).click();
  await page.getByRole('link', { name: 'per-tenant' }).click();
  await page.getByRole('heading', { name: 'edge.tenant' }).waitFor();
});

test.each([
  ['light', 1024],
  ['dark', 1280],
  ['dark', 360],
  ['light', 360],
] as const)('the view of sites is accessible and fits its window, %s, %p px', async (colorScheme, width) => {
  const page = await browser.open({ colorScheme, viewport: { width, height: 900 }, reducedMotion: 'reduce' });
  await openLocally(page, east);
  await page.goto(viewAt(east, 'sites'));
  await page.getByText('Fell back to escrow').waitFor();
  expect(await accessibilityViolations(page)).toEqual([]);
  expect(await overflowOf(page)).toBe(0);
  const into = isUpdate && colorScheme === 'light' && width > 1_000 ? 'docs/console' : join(folder, 'img');
  mkdirSync(into, { recursive: true });
  const name = into === 'docs/console' ? 'sites' : `sites-${colorScheme}-${width}`;
  const png = await page.screenshot({ path: join(into, `${name}.png`), fullPage: true });
  expect(png.length).toBeLessThan(250_000);
  await page.context().close();
});

test('the view names the sites that are set as lost, and lists their parts as those of the others', async () => {
  const left = await startLinkedSites(RULES, { names: ['eu-west'], lost: ['us-east'], env: { SITE_LOST: 'us-east' } });
  const [alone] = left.sites as [Weir]; // one was started
  try {
    await send(alone, 'edge', [['job', 'nightly']], 600);
    await send(alone, 'edge', [['job', 'nightly']], 600);
    const page = await browser.open({ viewport: { width: 360, height: 900 } });
    await openLocally(page, alone);
    await page.goto(viewAt(alone, 'sites'));
    await page.getByText('SITE_LOST names us-east').waitFor();
    const row = page.getByRole('row').filter({ hasText: 'us-east (lost)' });
    expect(await row.innerText()).toMatch(/unknown/);
    expect(await page.getByText('0 % over, declared 5 %').count()).toBe(1);
    expect(await accessibilityViolations(page)).toEqual([]);
    expect(await overflowOf(page)).toBe(0);
  } finally {
    await left.close();
  }
});
