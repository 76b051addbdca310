import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** A group of the side bar: its title, and its pages by file name without `.md`. */
export interface NavigationGroup {
  readonly title: string;
  readonly pages: readonly string[];
  readonly isFolded?: boolean;
}

/** All pages of docs/, guides before reference. A test fails if a page is missing here. */
export const navigation: readonly NavigationGroup[] = [
  { title: 'Start', pages: ['get-started', 'rules', 'algorithms', 'famous-limiters', 'layers', 'system-design'] },
  {
    title: 'Tasks',
    pages: [
      'protect-a-login',
      'penalties',
      'responses',
      'notify',
      'plans-and-quotas',
      'llm-tokens',
      'response-cost',
      'usage',
      'in-flight',
      'fair-shares',
      'why-refused',
      'change-a-limit',
      'clients',
      'engine',
      'good-client',
      'rlqs',
      'deferral',
      'schedules',
    ],
  },
  {
    title: 'Move and connect',
    pages: ['migrating-from-envoyproxy-ratelimit', 'from-node-limiters', 'gateways', 'proxies', 'overlay'],
  },
  { title: 'Try rules', pages: ['replay', 'advise'] },
  {
    title: 'Operate',
    pages: [
      'deploy',
      'counters',
      'scaling',
      'sites',
      'compatibility',
      'monitoring',
      'runbooks',
      'security',
      'reliability',
    ],
  },
  {
    title: 'Reference',
    pages: ['settings', 'rule-keys', 'command-line', 'admin-api', 'admin', 'statistics', 'headers'],
  },
  {
    title: 'Results',
    pages: [
      'results/bench',
      'results/conformance',
      'results/judge',
      'results/accuracy',
      'results/fair-shares',
      'results/chaos',
      'results/explore',
      'results/soak',
      'results/llm',
      'results/overload',
      'results/burst',
      'results/attack',
      'results/sharing',
      'performance',
    ],
  },
];

/** Labels that are shorter than the titles of their pages. */
const labels: ReadonlyMap<string, string> = new Map([
  ['llm-tokens', 'LLM tokens'],
  ['response-cost', 'Response costs'],
  ['usage', 'Usage'],
  ['clients', 'From your own code'],
  ['engine', 'In a Node process'],
  ['rlqs', 'Quotas for proxies'],
  ['migrating-from-envoyproxy-ratelimit', 'From envoyproxy/ratelimit'],
  ['gateways', 'Envoy Gateway and Istio'],
  ['proxies', 'Other proxies'],
  ['admin', 'Admin API explained'],
]);

/** Pages for few readers: at the end, folded. */
const builtHow = ['architecture', 'lua', 'decisions/README'];

export interface SidebarItem {
  readonly text: string;
  readonly link: string;
}

export interface SidebarGroup {
  readonly text: string;
  readonly collapsed?: true;
  readonly items: readonly SidebarItem[];
}

/** The side bar, with the pages' own titles. */
export function sidebarOf(docs: string): readonly SidebarGroup[] {
  const decisions = readdirSync(join(docs, 'decisions'))
    .filter((name) => /^\d{4}-.*\.md$/.test(name))
    .sort()
    .map((name) => `decisions/${name.replace(/\.md$/, '')}`);
  const groups: readonly NavigationGroup[] = [
    ...navigation,
    { title: 'How it is built', pages: [...builtHow, ...decisions], isFolded: true },
  ];
  return groups.map(({ title, pages, isFolded = false }) => ({
    text: title,
    ...(isFolded && { collapsed: true }),
    items: pages.map((page) => ({
      text: labels.get(page) ?? titleOf(docs, page),
      link: `/${page.replace(/(^|\/)README$/, '$1')}`,
    })),
  }));
}

/** The first heading of a page, without code marks. */
function titleOf(docs: string, page: string): string {
  const [, title] = /^# (.*)$/m.exec(readFileSync(join(docs, `${page}.md`), 'utf8')) ?? [];
  if (title === undefined) throw new Error(`expected a heading in docs/${page}.md`);
  return title.replaceAll('`', '').replace(/^Results: /, '');
}
