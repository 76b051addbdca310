import '../../../helpers/realm.ts';
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { accessibilityViolations, overflowOf, startBrowser, type TestBrowser } from '../../../helpers/browser.ts';
import { forKey, send, viewAt } from '../../../helpers/console.ts';
import { startWeir, type Weir } from '../../../helpers/weir.ts';

const RULES = `
domain: demo
descriptors:
  - key: api
    rate_limit: { unit: second, requests_per_unit: 1000, share: { by: tenant } }
    descriptors:
      - { key: tenant, value: acme, share: { reserve: 20%, weight: 3, ceiling: 600 } }
      - { key: tenant, value: umbrella, share: { reserve: 300 } }
      - { key: tenant, value: initech, share: { reserve: 150, weight: 2 } }
`;

/** UPDATE_SCREENSHOTS=1 saves a picture in the docs; otherwise they go to a folder that is removed. */
const isUpdate = process.env.UPDATE_SCREENSHOTS === '1';

let folder: string;
let weir: Weir;
let browser: TestBrowser;
let load: ReturnType<typeof setInterval>;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'console-'));
  writeFileSync(join(folder, 'rules.yaml'), RULES);
  browser = await startBrowser();
  weir = await startWeir({ RULES_PATH: join(folder, 'rules.yaml'), USE_STATSD: 'false' });
  const ask = () =>
    Promise.all(
      [
        ['acme', 38],
        ['initech', 7],
        ['globex', 12],
      ].map(([tenant, hits]) =>
        send(
          weir,
          'demo',
          [
            ['api', ''],
            ['tenant', String(tenant)],
          ],
          Number(hits),
        ),
      ),
    ).catch(() => []); // the service may stop first
  load = setInterval(() => void ask(), 100);
});
afterAll(async () => {
  clearInterval(load);
  await browser.close();
  await weir.stop();
});

test("a client's page shows who uses, borrows and lends of a shared limit", async () => {
  const page = await browser.open({ viewport: { width: 1_024, height: 900 } });
  await page.goto(
    viewAt(
      weir,
      forKey('client', 'demo', [
        ['api', ''],
        ['tenant', 'acme'],
      ]),
    ),
  );
  const shares = page.getByRole('region', { name: 'Shares' });
  const row = (name: string) => shares.getByRole('row').filter({ hasText: name });
  await row('umbrella').getByText('idle').waitFor();
  expect(await row('umbrella').innerText()).toMatch(/idle\s+1\s+300\s+0\s+0\s+300$/);
  expect(await row('acme').innerText()).toMatch(/^tenant acme \(this one\)/);
  await shares.getByRole('img', { name: /^tenant initech: \d+ used, 0 of it borrowed/ }).waitFor();
  expect(await shares.getByRole('row').count()).toBe(4);
  for (const width of [1_024, 360]) {
    await page.setViewportSize({ width, height: 900 });
    expect(await overflowOf(page)).toBe(0);
    expect(await accessibilityViolations(page)).toEqual([]);
    const into = isUpdate && width > 1_000 ? 'docs/console' : join(folder, 'img');
    mkdirSync(into, { recursive: true });
    await shares.screenshot({ path: join(into, 'shares.png') });
  }
  expect(browser.problems).toEqual([]);
});
