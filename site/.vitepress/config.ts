import { copyFile, mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitepress';
import { home } from '../home.ts';
import { llmsText } from '../llms.ts';
import { sidebarOf } from '../navigation.ts';
import { repositoryLinks } from '../repository-links.ts';
import { search } from '../search.ts';
import { githubSlug } from '../slug.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const REPOSITORY = 'https://github.com/weir-rls/weir';

/** The site shows docs/ as on GitHub, plus a head on the first page. */
export default defineConfig({
  srcDir: '../docs',
  outDir: 'dist',
  rewrites: (page) => page.replace(/(^|\/)README\.md$/, '$1index.md'),
  lang: 'en',
  title: 'Weir',
  titleTemplate: ':title · Weir',
  description: 'A rate limit service for Envoy: drop-in for envoyproxy/ratelimit',
  head: [
    ['link', { rel: 'icon', href: '/logo.svg' }],
    ['meta', { name: 'theme-color', content: '#17627d' }],
  ],
  lastUpdated: false,
  markdown: {
    attrs: { disable: true },
    anchor: { slugify: githubSlug },
    theme: { light: 'github-light-high-contrast', dark: 'github-dark-high-contrast' },
    languageAlias: { ndjson: 'json' },
    config: (markdown) => {
      repositoryLinks(ROOT, REPOSITORY)(markdown);
      // a wide table scrolls inside its frame; the page never scrolls sideways
      markdown.renderer.rules.table_open = () => '<div class="table" tabindex="0"><table>\n';
      markdown.renderer.rules.table_close = () => '</table></div>\n';
    },
  },
  async buildEnd({ outDir, pages }) {
    for (const page of pages) {
      await mkdir(dirname(join(outDir, page)), { recursive: true });
      await copyFile(`${ROOT}docs/${page}`, join(outDir, page));
    }
    await writeFile(join(outDir, 'llms.txt'), llmsText(`${ROOT}docs`));
  },
  transformPageData: (page) => {
    if (page.relativePath === 'index.md') Object.assign(page.frontmatter, home());
  },
  vite: { publicDir: `${ROOT}site/public`, build: { chunkSizeWarningLimit: 2_000 } },
  themeConfig: {
    logo: '/logo.svg',
    search,
    nav: [
      { text: 'Get started', link: '/get-started' },
      { text: 'Tasks', link: '/#one-page-per-task' },
      { text: 'Reference', link: '/settings', activeMatch: '^/(settings|rule-keys|command-line|admin-api|statistics)' },
      { text: 'Results', link: '/results/bench' },
    ],
    sidebar: sidebarOf(`${ROOT}docs`),
    outline: { level: [2, 3] },
    socialLinks: [{ icon: 'github', link: REPOSITORY }],
    editLink: { pattern: `${REPOSITORY}/edit/main/docs/:path`, text: 'Edit this page' },
    footer: { message: 'Apache-2.0' },
    docFooter: { prev: 'Previous', next: 'Next' },
  },
});
