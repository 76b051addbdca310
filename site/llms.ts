import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { sidebarOf } from './navigation.ts';

/** Path of a page as Markdown, relative to the site. */
export const markdownOf = (link: string): string => `${link.slice(1)}${link.endsWith('/') ? 'README' : ''}.md`;

/**
 * A list of all pages for programs that read: their titles, addresses and first sentences.
 *
 * @see https://llmstxt.org
 */
export function llmsText(docs: string): string {
  const groups = sidebarOf(docs).map(({ text, collapsed, items }) =>
    [
      `## ${collapsed ? `Optional: ${text}` : text}`,
      '',
      ...items.map(
        (item) => `- [${item.text}](${markdownOf(item.link)}): ${firstSentence(docs, markdownOf(item.link))}`,
      ),
    ].join('\n'),
  );
  return `${[HEAD, ...groups].join('\n\n')}\n`;
}

const HEAD = `# Weir

> A rate limit service for Envoy: it answers the Rate Limit Service v3, and is a drop-in for envoyproxy/ratelimit.

To operate a service, run \`npx weir COMMAND --json\`: every command that prints data has \`--json\`, and exit codes are in
[command-line.md](command-line.md). \`weir status --json\` says whether it works and what to do. The admin API is described
by \`/api/v1/openapi.json\` on the debug port.`;

const MAX_SENTENCE = 200;

function firstSentence(docs: string, page: string): string {
  const [, text = ''] =
    /^# .*\n+(?:<!--.*-->\n+)*([^\n#|<][\s\S]*?)\n\n/m.exec(readFileSync(join(docs, page), 'utf8')) ?? [];
  const plain = text.replace(/\s+/g, ' ').replace(/\[([^\]]*)\]\([^)]*\)/g, '$1');
  const [sentence = plain.replace(/:$/, '')] = /^.*?\.(?= |$)/.exec(plain) ?? [];
  return sentence.length > MAX_SENTENCE ? `${sentence.slice(0, MAX_SENTENCE)}…` : sentence;
}
