import { statSync } from 'node:fs';
import { posix } from 'node:path';

/** The used part of a link token of markdown-it. */
interface LinkToken {
  readonly type: string;
  readonly children: readonly LinkToken[] | null;
  attrGet(name: string): string | null;
  attrSet(name: string, value: string): void;
}

interface MarkdownParser {
  readonly core: {
    readonly ruler: {
      push(name: string, rule: (state: { readonly tokens: readonly LinkToken[]; readonly env: PageEnv }) => void): void;
    };
  };
}

/** The rendered page: `decisions/0002-yaml-with-places.md`. */
interface PageEnv {
  readonly relativePath?: string;
}

/**
 * Makes links that leave docs/ point to the repository: they are relative paths on GitHub, but these paths do not exist
 * on the site.
 *
 * @param root        the project's root
 * @param repository  its URL: `https://github.com/weir-rls/weir`
 */
export function repositoryLinks(root: string, repository: string): (markdown: MarkdownParser) => void {
  return (markdown) =>
    markdown.core.ruler.push('repository-links', ({ tokens, env }) => {
      for (const token of tokens.flatMap(({ children }) => children ?? [])) {
        const href = token.type === 'link_open' ? token.attrGet('href') : null;
        if (href === null) continue;
        const path = inRepository(href, env.relativePath ?? '');
        token.attrSet('href', path === undefined ? onSite(href) : addressOf(path, root, repository));
      }
    });
}

/** README.md is the index of its folder, on GitHub and here. */
const onSite = (href: string): string =>
  /^[a-z]+:/.test(href) ? href : href.replace(/(^|\/)README\.md/, '$1index.md');

/** The path from the project's root; undefined: the target is on the site. */
export function inRepository(href: string, page: string): string | undefined {
  if (/^(?:[a-z]+:|#|\/)/.test(href)) return undefined;
  const path = posix.join('docs', posix.dirname(page), href);
  const isOnSite = path.startsWith('docs/') && /\.(?:md|svg|png)(?:#|$)/.test(path);
  return isOnSite ? undefined : path;
}

function addressOf(path: string, root: string, repository: string): string {
  const [file = '', hash] = path.split('#');
  const kind = statSync(posix.join(root, file), { throwIfNoEntry: false })?.isDirectory() ? 'tree' : 'blob';
  return `${repository}/${kind}/main/${file}${hash === undefined ? '' : `#${hash}`}`;
}
