import type { Page } from 'playwright-core';
import type { Weir } from './weir.ts';

export const TOKEN = 'a secret of operators';

/** The URL of a view. */
export const viewAt = ({ debugPort }: Pick<Weir, 'debugPort'>, view = ''): string =>
  `http://localhost:${debugPort}/console/#/${view}`;

/** Opens the address that a service without ADMIN_TOKEN prints at its start. */
export async function openLocally(page: Page, weir: Pick<Weir, 'debugPort' | 'output'>): Promise<void> {
  const [address = ''] = /http:\S+#token=\S+/.exec(weir.output()) ?? [];
  await page.goto(address);
  await page.getByText('local (read)').waitFor();
}

/** The URL of a view for one descriptor. */
export const forKey = (view: string, domain: string, pairs: readonly (readonly [string, string])[]): string =>
  `${view}?${new URLSearchParams({ domain, pairs: JSON.stringify(pairs) })}`;

export async function signIn(page: Page, weir: Pick<Weir, 'debugPort'>): Promise<void> {
  await page.goto(viewAt(weir, 'sign-in'));
  await page.getByLabel('Token').fill(TOKEN);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByText('admin (operate)').waitFor();
}

/** Sends one request to `/json`. @returns the HTTP status */
export async function send(
  { httpPort }: Pick<Weir, 'httpPort'>,
  domain: string,
  pairs: readonly (readonly [string, string])[],
  hits = 1,
): Promise<number> {
  const entries = pairs.map(([key, value]) => ({ key, value }));
  const body = JSON.stringify({ domain, hits_addend: hits, descriptors: [{ entries }] });
  return (await fetch(`http://127.0.0.1:${httpPort}/json`, { method: 'POST', body })).status;
}
