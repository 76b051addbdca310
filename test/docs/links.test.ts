import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { githubSlug } from '../../site/slug.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

const pages = [
  ...[
    'README.md',
    'CONTRIBUTING.md',
    'SECURITY.md',
    'CODE_OF_CONDUCT.md',
    'CHANGELOG.md',
    'client/README.md',
    'findings/README.md',
  ],
  ...readdirSync(join(ROOT, 'docs'), { recursive: true, withFileTypes: true }).flatMap((entry) =>
    entry.isFile() && entry.name.endsWith('.md') ? [relative(ROOT, join(entry.parentPath, entry.name))] : [],
  ),
];

/** A page without code, where brackets are no links and `#` is no heading. */
const proseOf = (page: string): string => readFileSync(join(ROOT, page), 'utf8').replace(/^\s*```.*?^\s*```/gms, '');

const anchorsOf = (page: string): ReadonlySet<string> => {
  const counts = new Map<string, number>();
  return new Set(
    Array.from(proseOf(page).matchAll(/^#{1,6} (.*)$/gm), ([, heading = '']) => {
      const slug = githubSlug(heading.replace(/\[([^\]]*)\]\([^)]*\)/g, '$1'));
      const before = counts.get(slug) ?? 0;
      counts.set(slug, before + 1);
      return before === 0 ? slug : `${slug}-${before}`;
    }),
  );
};

test.each(pages)('the links of %s lead to files and headings that exist', (page) => {
  const prose = proseOf(page).replace(/`[^`\n]*`/g, '');
  const broken = Array.from(prose.matchAll(/\]\(\s*([^)\s]+)\s*\)/g), ([, href = '']) => href).filter((href) => {
    if (/^[a-z]+:/.test(href)) return false;
    const [path = '', anchor] = href.split('#');
    const file = path === '' ? page : join(dirname(page), path);
    if (!existsSync(join(ROOT, file))) return true;
    return anchor !== undefined && file.endsWith('.md') && !anchorsOf(file).has(anchor);
  });
  expect(broken).toEqual([]);
});

test('every page of docs/ is linked from docs/README.md, or from a page that is', () => {
  const found = new Set(['docs/README.md']);
  for (const page of found)
    for (const [, href = ''] of proseOf(page).matchAll(/\]\(\s*([^)\s#]+\.md)[^)]*\)/g)) {
      const file = join(dirname(page), href);
      if (file.startsWith('docs/') && existsSync(join(ROOT, file))) found.add(file);
    }
  const decisions = /^docs\/decisions\/\d/;
  expect(pages.filter((page) => page.startsWith('docs/') && !found.has(page) && !decisions.test(page))).toEqual([]);
});

test('the files that CONTRIBUTING.md names for kinds of changes exist', () => {
  const paths = proseOf('CONTRIBUTING.md').matchAll(/`((?:src|test|docs)\/[\w./-]*)`/g);
  const missing = Array.from(paths, ([, path = '']) => path).filter(
    (path) => !path.includes('NAME') && !existsSync(join(ROOT, path)),
  );
  expect(missing).toEqual([]);
});
