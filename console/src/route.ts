import { computed, signal } from '@preact/signals';

/** The current view, kept in the fragment of the URL, so that the console works under any path. */
export interface Route {
  readonly view: string;
  readonly params: URLSearchParams;
}

/** The token in the address that the service prints at its start, which is removed from the address bar. */
export const givenToken = /^#token=(.+)$/.exec(location.hash)?.[1];
if (givenToken !== undefined) history.replaceState(undefined, '', location.pathname);

const hash = signal(location.hash);
addEventListener('hashchange', () => {
  hash.value = location.hash;
});

export const route = computed<Route>(() => {
  const [path = '', query = ''] = hash.value.replace(/^#\/?/, '').split(/\?(.*)/s);
  return { view: path === '' ? 'overview' : path, params: new URLSearchParams(query) };
});

export type Params = Readonly<Record<string, string | undefined>>;

/** The URL of a view. */
export function linkTo(view: string, params: Params = {}): string {
  const written = new URLSearchParams();
  for (const [name, value] of Object.entries(params))
    if (value !== undefined && value !== '') written.append(name, value);
  const query = written.toString();
  return `#/${view}${query === '' ? '' : `?${query}`}`;
}

/** Changes parameters of the current view without a history entry. */
export function replaceParams(params: Params): void {
  const { view, params: known } = route.peek();
  const next = { ...Object.fromEntries(known), ...params };
  history.replaceState(undefined, '', linkTo(view, next));
  hash.value = location.hash;
}

export const param = (name: string): string | undefined => route.value.params.get(name) ?? undefined;

/** One entry of a descriptor. */
export interface Pair {
  readonly key: string;
  readonly value: string;
}

/** A descriptor as a URL parameter. */
export const pairsParam = (entries: readonly Pair[]): string =>
  JSON.stringify(entries.map(({ key, value }) => [key, value]));

/** Undefined if the URL has none. */
export function readPairs(text: string | undefined): readonly Pair[] | undefined {
  if (text === undefined) return undefined;
  try {
    const read: unknown = JSON.parse(text);
    if (!Array.isArray(read)) return undefined;
    return read.map((pair): Pair => ({ key: String(pair?.[0] ?? ''), value: String(pair?.[1] ?? '') }));
  } catch {
    return undefined;
  }
}
