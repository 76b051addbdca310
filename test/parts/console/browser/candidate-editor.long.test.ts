import '../../../helpers/realm.ts';
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Locator, Page } from 'playwright-core';
import { accessibilityViolations, overflowOf, startBrowser, type TestBrowser } from '../../../helpers/browser.ts';
import { openLocally, signIn, TOKEN, viewAt } from '../../../helpers/console.ts';
import { eventually } from '../../../helpers/until.ts';
import { startWeir, type Weir } from '../../../helpers/weir.ts';

const RULES = `domain: demo
descriptors:
  - key: user
    rate_limit: { unit: day, requests_per_unit: 50 }
`;
const MORE = `domain: demo
descriptors:
  - key: api_key
    rate_limit: { unit: day, requests_per_unit: 7 }
`;

let folder: string;
let weir: Weir;
let browser: TestBrowser;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'editor-'));
  writeFileSync(join(folder, 'rules.yaml'), RULES);
  browser = await startBrowser();
  weir = await startWeir(
    { ADMIN_TOKEN: TOKEN, USE_STATSD: 'false', AUDIT_LOG: join(folder, 'audit.log') },
    { args: ['--rules', join(folder, 'rules.yaml')] },
  );
});
afterAll(async () => {
  await weir.stop();
  await browser.close();
});
afterEach(async () => expect(await browser.endTest()).toEqual([]));

const editorOf = (page: Page): Locator => page.getByRole('textbox', { name: 'Rules, YAML' });

async function openEditor(width = 1280): Promise<Page> {
  const permissions = ['clipboard-read', 'clipboard-write'];
  const page = await browser.open({ permissions, viewport: { width, height: 800 } });
  await signIn(page, weir);
  await page.goto(viewAt(weir, 'candidate'));
  await page.getByText('1 rule of demo, no error').waitFor();
  return page;
}

/** The selected text. */
const selected = (page: Page): Promise<string> =>
  page.evaluate(
    '(({ value, selectionStart, selectionEnd }) => value.slice(selectionStart, selectionEnd))(document.activeElement)',
  );

test('problems are shown at their lines while typing, and an invalid text is not loaded', async () => {
  const page = await openEditor();
  const loads = page.getByRole('button', { name: 'Load as candidate…' });
  expect(await loads.isEnabled()).toBe(true);
  await editorOf(page).fill(RULES.replace('day', 'fortnight'));
  await page.getByText('1 error', { exact: true }).waitFor();
  await page.getByText("invalid rate limit unit 'fortnight'").waitFor();
  expect(await loads.isDisabled()).toBe(true);
  expect(await page.locator('.gutter .error').count()).toBe(1);
  expect(await accessibilityViolations(page)).toEqual([]);
  await page.getByRole('button', { name: 'Line 4' }).click();
  expect(await selected(page)).toBe('unit: fortnight, requests_per_unit: 50 }');
  await page.keyboard.type('unit: day, requests_per_unit: 10 }');
  await page.getByText('1 rule of demo, no error').waitFor();
  expect(await page.locator('.gutter .error').count()).toBe(0);
  expect(await loads.isEnabled()).toBe(true);

  await editorOf(page).fill('domain: [demo\n');
  await page
    .getByRole('button', { name: /^Line \d/ })
    .first()
    .waitFor();
  expect(await loads.isDisabled()).toBe(true);
  await editorOf(page).fill('');
  await page.getByText('There is no text.').waitFor();
  expect(await loads.isDisabled()).toBe(true);
});

test('a text is kept while other views are shown, and can be restored after the live rules replaced it', async () => {
  const page = await openEditor();
  const mine = RULES.replace('50', '11');
  await editorOf(page).fill(mine);
  await page.getByRole('link', { name: 'Audit' }).click();
  await page.getByRole('heading', { name: 'Audit' }).waitFor();
  await page.getByRole('link', { name: 'Candidate' }).click();
  await editorOf(page).waitFor();
  expect(await editorOf(page).inputValue()).toBe(mine);
  await page.getByRole('button', { name: 'Start from the rules in force' }).click();
  await page.getByRole('button', { name: 'Undo: restore my text' }).waitFor();
  expect(await editorOf(page).inputValue()).toBe(RULES);
  await page.getByRole('button', { name: 'Undo: restore my text' }).click();
  expect(await editorOf(page).inputValue()).toBe(mine);
  expect(await page.evaluate('document.activeElement.tagName')).toBe('TEXTAREA');
  await page.getByRole('button', { name: 'Copy YAML' }).click();
  await page.getByRole('button', { name: 'Copied' }).waitFor();
  expect(await page.evaluate('navigator.clipboard.readText()')).toBe(mine);
});

test('in a long text, a problem is scrolled into view with its line number, also on a phone', async () => {
  const page = await openEditor(360);
  const rules = Array.from(
    { length: 300 },
    (_, at) => `  - { key: k${at}, rate_limit: { unit: ${at === 250 ? 'fortnight' : 'day'}, requests_per_unit: 5 } }`,
  );
  await editorOf(page).fill(`domain: demo\ndescriptors:\n${rules.join('\n')}\n`);
  await page.getByRole('button', { name: 'Line 253' }).click();
  const scrolled = Number(await page.evaluate('document.activeElement.scrollTop'));
  expect(scrolled).toBeGreaterThan(5_000);
  await page.waitForFunction(
    `document.querySelector('.gutter > div').style.transform === 'translateY(-${scrolled}px)'`,
  );
  const [mark, gutter] = [
    await page.locator('.gutter .error').boundingBox(),
    await page.locator('.gutter').boundingBox(),
  ];
  expect(mark?.y).toBeGreaterThan(gutter?.y ?? Number.NaN);
  expect((mark?.y ?? Number.NaN) + 24).toBeLessThan((gutter?.y ?? 0) + (gutter?.height ?? 0));
  expect(await overflowOf(page)).toBe(0);
});

test('hostile names in a text are shown as text', async () => {
  const page = await openEditor(360);
  const unit = `<img src=x onerror=alert(1)>\u202E${'x'.repeat(5_000)}`;
  await editorOf(page).fill(RULES.replace('day', JSON.stringify(unit)));
  await page.getByText('<img src=x onerror=alert(1)>').first().waitFor();
  expect(await page.locator('main img').count()).toBe(0);
  expect(await page.locator('.problems').innerText()).not.toContain('\u202e');
  expect(await overflowOf(page)).toBe(0);
});

test('the editor can be used by keyboard alone, and Tab leaves it', async () => {
  const page = await openEditor();
  const focused = (): Promise<string> =>
    page.evaluate('document.activeElement.ariaLabel || document.activeElement.textContent.trim()');
  const tabTo = async (name: string): Promise<void> => {
    for (let presses = 0; presses < 40; presses++) {
      await page.keyboard.press('Tab');
      if ((await focused()) === name) return;
    }
    throw new Error(`Tab does not reach '${name}'`);
  };
  await tabTo('Rules, YAML');
  await page.keyboard.press('ControlOrMeta+a');
  await page.keyboard.insertText(RULES.replace('50', '12'));
  await page.getByText('Checking…').waitFor({ state: 'hidden' });
  await page.getByText('1 rule of demo, no error').waitFor();
  await tabTo('Load as candidate…');
  await page.keyboard.press('Enter');
  await page.getByRole('dialog').waitFor();
  expect(await accessibilityViolations(page)).toEqual([]);
  await page.keyboard.press('Escape');
  await page.locator('dialog').waitFor({ state: 'detached' });
  expect(await focused()).toBe('Load as candidate…');
  await page.keyboard.press('Enter');
  await page.getByRole('dialog').waitFor();
  await page.keyboard.type('from the keyboard');
  await page.keyboard.press('Enter');
  await page.getByText('The candidate is loaded.').waitFor();
  await eventually(async () => (await focused()) === 'The candidate is loaded. It is tried on requests from now on.');
  await page.reload();
  await page.getByText('from the keyboard').waitFor();
  await page.getByText('1 rule of demo, no error').waitFor();
  expect(await editorOf(page).inputValue()).toBe(RULES.replace('50', '12')); // the text of the candidate
});

test('each file of a domain with several files may be edited', async () => {
  const rules = join(folder, 'several');
  mkdirSync(rules);
  writeFileSync(join(rules, 'a.yaml'), RULES);
  writeFileSync(join(rules, 'b.yaml'), MORE);
  const merged = await startWeir({ USE_STATSD: 'false', MERGE_DOMAIN_CONFIG: 'true' }, { args: ['--rules', rules] });
  try {
    const page = await browser.open();
    await openLocally(page, merged);
    await page.goto(viewAt(merged, 'candidate'));
    await page.getByText('The rules of the domain are in 2 files.').waitFor();
    await page.getByRole('button', { name: 'b.yaml' }).click();
    expect(await editorOf(page).inputValue()).toBe(MORE);
    expect(await accessibilityViolations(page)).toEqual([]);
  } finally {
    await merged.stop();
  }
});

test('the cursor keeps its position in a text with Windows line endings', async () => {
  const rules = join(folder, 'windows.yaml');
  writeFileSync(rules, RULES.replaceAll('\n', '\r\n'));
  const other = await startWeir({ USE_STATSD: 'false' }, { args: ['--rules', rules] });
  try {
    const page = await browser.open();
    await openLocally(page, other);
    await page.goto(viewAt(other, 'candidate'));
    await page.getByText('1 rule of demo, no error').waitFor();
    await editorOf(page).focus();
    await page.evaluate('document.activeElement.setSelectionRange(7, 7)');
    const polled = (): Promise<unknown> => page.waitForResponse((response) => response.url().endsWith('/candidate'));
    await polled();
    await polled(); // the page shows the previous answer
    expect(await page.evaluate('document.activeElement.selectionStart')).toBe(7);
  } finally {
    await other.stop();
  }
});
