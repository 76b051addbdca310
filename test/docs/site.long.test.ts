import '../helpers/realm.ts';
import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, posix } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { sidebarOf } from '../../site/navigation.ts';
import { inRepository } from '../../site/repository-links.ts';
import { accessibilityViolations, overflowOf, startBrowser, type TestBrowser } from '../helpers/browser.ts';
import { serveFolder } from '../helpers/static-server.ts';
import { eventually } from '../helpers/until.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const REPOSITORY = 'https://github.com/weir-rls/weir';

let folder: string;
let server: Awaited<ReturnType<typeof serveFolder>>;
let browser: TestBrowser;
let pages: readonly string[];

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'site-'));
  const args = ['--import', 'tsx', 'site/build.ts', '--out', folder];
  await promisify(execFile)(process.execPath, args, { cwd: ROOT, env: { ...process.env, NODE_ENV: undefined } });
  pages = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith('.html'));
  server = await serveFolder(folder);
  browser = await startBrowser();
}, 900_000); // the build keeps several processors busy

afterAll(async () => {
  await browser?.close();
  server?.close();
});

test('every page of docs/ is in the sidebar, and on the site', () => {
  const sources = readdirSync(join(ROOT, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.md') && path !== 'README.md')
    .map((path) => path.replace(/\.md$/, '').replace(/(^|\/)README$/, '$1'));
  const links = sidebarOf(join(ROOT, 'docs')).flatMap(({ items }) => items.map(({ link }) => link.slice(1)));
  expect([...links].sort()).toEqual(sources.sort());
  for (const link of links) expect(pages).toContain(link.endsWith('/') ? `${link}index.html` : `${link}.html`);
});

test('llms.txt lists every page with a sentence, and the pages are there as Markdown', () => {
  const text = readFileSync(join(folder, 'llms.txt'), 'utf8');
  const listed = Array.from(text.matchAll(/^- \[.+?\]\((.+?)\): (.*)$/gm), ([, path = '', sentence = '']) => ({
    path,
    sentence,
  }));
  expect(listed.length).toBeGreaterThan(60);
  for (const { path, sentence } of listed) {
    expect({ path, exists: existsSync(join(folder, path)) }).toEqual({ path, exists: true });
    expect({ path, length: sentence.length > 10 }).toEqual({ path, length: true });
  }
  expect(text).toContain('--json');
});

/** The targets of the links and pictures on a page. */
const targetsOf = (page: string): readonly string[] => {
  const html = readFileSync(join(folder, page), 'utf8');
  return Array.from(html.matchAll(/<(?:a|img)\b[^>]*?\s(?:href|src)="([^"]*)"/g), ([, target = '']) =>
    target.replaceAll('&amp;', '&'),
  );
};

const hasAnchor = (path: string, anchor: string): boolean =>
  readFileSync(path, 'utf8').includes(` id="${decodeURIComponent(anchor)}"`);

test('the links and anchors of every page have targets', () => {
  expect(pages.length).toBeGreaterThan(60);
  const broken = pages.flatMap((page) =>
    targetsOf(page)
      .filter((target) => !/^(?:[a-z]+:)/.test(target))
      .filter((target) => {
        const [path = '', anchor] = target.split('#');
        const at = path === '' ? `/${page}` : posix.resolve('/', posix.dirname(page), path);
        const file = join(folder, path.endsWith('/') || at === '/' ? `${at}/index.html` : at);
        const found = existsSync(file) && statSync(file).isFile() ? file : `${file}.html`;
        return !existsSync(found) || (anchor !== undefined && anchor !== '' && !hasAnchor(found, anchor));
      })
      .map((target) => `${page}: ${target}`),
  );
  expect([...new Set(broken)]).toEqual([]);
});

test('links to the repository lead to existing files', () => {
  const targets = pages.flatMap(targetsOf).filter((target) => target.startsWith(`${REPOSITORY}/`));
  expect(targets.length).toBeGreaterThan(20);
  const missing = targets.filter((target) => {
    const [, kind, path = ''] = /^\/(blob|tree|edit)\/main\/([^#]*)/.exec(target.slice(REPOSITORY.length)) ?? [];
    const found = statSync(join(ROOT, path), { throwIfNoEntry: false });
    return kind === undefined || !(kind === 'tree' ? found?.isDirectory() : found?.isFile());
  });
  expect([...new Set(missing)]).toEqual([]);
});

test.each([
  ['rules.md', 'counters.md', undefined],
  ['decisions/0002-yaml-with-places.md', '../counters.md#memory', undefined],
  ['rules.md', '../config/rules.yaml', 'config/rules.yaml'],
  ['decisions/0002-yaml-with-places.md', '../../src', 'src'],
  ['runbooks.md', 'mapping.yaml', 'docs/mapping.yaml'],
  ['rules.md', 'https://example.com/a.yaml', undefined],
  ['rules.md', '#by-growing-examples', undefined],
])('on %s the link %s is outside of the site: %s', (page, href, path) => {
  expect(inRepository(href, page)).toBe(path);
});

test('every page fits a phone of 360 px', async () => {
  const phone = { viewport: { width: 360, height: 740 }, isMobile: true, hasTouch: true };
  const page = await browser.open({ ...phone, javaScriptEnabled: false }); // pages are complete without scripts, which fetch linked pages
  const wide: string[] = [];
  for (const path of pages) {
    await page.goto(`${server.origin}/${path}`);
    const overflow = await overflowOf(page);
    if (overflow > 0) wide.push(`${path}: ${overflow} px`);
  }
  expect(wide).toEqual([]);
});

test('a search needs no network, and leads to the section', async () => {
  const page = await browser.open();
  await page.goto(`${server.origin}/`);
  for (const [query, address] of [
    ['unused lease', /\/(?:reliability|scaling)\.html#(?:leases|hot-keys)$/],
    ['redis password', /\/settings\.html#counters$/],
    ['whitelist', /\/admin\.html#overrides$/],
  ] as const) {
    await page.locator('.VPNavBarSearchButton, .DocSearch-Button').first().click();
    await page.locator('#localsearch-input').fill(query);
    const first = page.locator('.VPLocalSearchBox .result').first();
    await eventually(async () => address.test((await first.getAttribute('href')) ?? '')); // not of the query before
    await first.click();
    await page.waitForURL(address);
  }
  expect(browser.problems).toEqual([]);
  await page.context().close();
});

/** Violations that axe-core finds in VitePress's theme on any page, outside of the pages' contents. */
const ofTheme = /^(?:label-content-name-mismatch|landmark-one-main|region|nested-interactive):/;

test.each([
  ['index.html', 'light'],
  ['why-refused.html', 'dark'],
  ['rule-keys.html', 'light'],
] as const)('%s is accessible in the %s theme', async (path, colorScheme) => {
  const page = await browser.open({ colorScheme });
  await page.goto(`${server.origin}/${path}`);
  await page.locator('h1').first().waitFor();
  const violations = (await accessibilityViolations(page)).filter((violation) => !ofTheme.test(violation));
  expect(violations).toEqual([]);
  await page.context().close();
});
