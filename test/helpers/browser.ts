import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { type Browser, type BrowserContextOptions, chromium as driver, type Page } from 'playwright-core';
import { chromium } from './tools.ts';

/** Longer than any step takes, since the machine may be busy. */
const TIMEOUT_MS = 100_000;

/** Chromium, driven by a test. */
export interface TestBrowser {
  readonly browser: Browser;
  /** Opens a page in a new context; its errors are added to `problems`. */
  open(options?: BrowserContextOptions): Promise<Page>;
  /** Script errors, violations of the Content-Security-Policy, and requests to other hosts. */
  readonly problems: string[];
  /** Closes all pages, which would go on polling during the next test. @returns the problems since the last call */
  endTest(): Promise<readonly string[]>;
  close(): Promise<void>;
}

export async function startBrowser(): Promise<TestBrowser> {
  const browser = await driver.launch({
    executablePath: await chromium(),
    chromiumSandbox: process.getuid?.() !== 0,
    timeout: TIMEOUT_MS,
  });
  const problems: string[] = [];
  return {
    browser,
    problems,
    async open(options = {}) {
      const context = await browser.newContext({ locale: 'en-GB', timezoneId: 'Europe/Berlin', ...options });
      context.setDefaultTimeout(TIMEOUT_MS);
      const page = await context.newPage();
      watch(page, problems);
      return page;
    },
    async endTest() {
      await Promise.all(browser.contexts().map((context) => context.close()));
      return problems.splice(0);
    },
    close: () => browser.close(),
  };
}

/** Adds the errors of a page to a list, except 4xx responses and lost connections, which tests cause on purpose. */
export function watch(page: Page, problems: string[]): void {
  page.on('pageerror', (error) => problems.push(`script: ${error.message}`));
  page.on('console', (message) => {
    const text = message.text();
    if (message.type() === 'error' && !text.startsWith('Failed to load resource')) problems.push(`console: ${text}`);
  });
  page.on('request', (request) => {
    const url = new URL(request.url());
    if (!['127.0.0.1', 'localhost'].includes(url.hostname) && url.protocol !== 'data:')
      problems.push(`request: ${url}`);
  });
  page.on('dialog', (dialog) => {
    problems.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
}

const axeSource = (): string => {
  const require = createRequire(join(process.cwd(), 'package.json'));
  return readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
};

interface AxeResult {
  readonly id: string;
  readonly help: string;
  readonly nodes: readonly { readonly html: string }[];
}

/** The violations that axe-core reports for a page: `color-contrast: …: <a …>`. */
export async function accessibilityViolations(page: Page): Promise<readonly string[]> {
  await page.evaluate(axeSource());
  const violations = (await page.evaluate('axe.run().then(({ violations }) => violations)')) as readonly AxeResult[]; // as axe-core documents it
  return violations.map(
    ({ id, help, nodes }) => `${id}: ${help}: ${nodes.map(({ html }) => html.slice(0, 200)).join(' ')}`,
  );
}

/** By how many px a page is wider than its window. */
export const overflowOf = (page: Page): Promise<number> =>
  page.evaluate('document.documentElement.scrollWidth - document.documentElement.clientWidth');
