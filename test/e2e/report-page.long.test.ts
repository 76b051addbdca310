import '../helpers/realm.ts';
import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { accessibilityViolations, overflowOf, startBrowser, type TestBrowser } from '../helpers/browser.ts';
import { MAIN } from '../helpers/weir.ts';

const folder = mkdtempSync(join(tmpdir(), 'report-'));

/** UPDATE_SCREENSHOTS=1 saves the picture in the docs; otherwise it goes to a folder that is removed. */
const pictures = process.env.UPDATE_SCREENSHOTS === '1' ? 'docs/report' : folder;

let browser: TestBrowser;
let page: string;
beforeAll(async () => {
  const [rules, proposed] = ['rules.yaml', 'proposed.yaml'].map((name, at) => {
    const limit = `{ unit: minute, requests_per_unit: ${at === 0 ? 60 : 30} }`;
    writeFileSync(join(folder, name), `domain: demo\ndescriptors: [{ key: user, rate_limit: ${limit} }]\n`);
    return name;
  }) as [string, string]; // two in, two out
  const args = ['simulate', '--scenario', 'flash-sale', '--rules', rules, '--against', proposed];
  await promisify(execFile)(process.execPath, [MAIN, ...args, '--html', 'report.html'], { cwd: folder });
  page = readFileSync(join(folder, 'report.html'), 'utf8');
  browser = await startBrowser();
});
afterAll(async () => {
  await browser.close();
});
afterEach(async () => expect(await browser.endTest()).toEqual([]));

test('the page of a simulation is accessible and fits its window', async () => {
  const opened = await browser.open({ offline: true, colorScheme: 'light', viewport: { width: 1_280, height: 1_000 } });
  await opened.setContent(page);
  expect(await opened.textContent('h1')).toMatch(/^The change refuses .* of requests that passed before/);
  expect(await accessibilityViolations(opened)).toEqual([]);
  expect(await overflowOf(opened)).toBe(0);
  mkdirSync(pictures, { recursive: true });
  await opened.screenshot({ path: join(pictures, 'page.png') });
});
