/** The longest line of a Markdown source. */
export const MAX_LINE = 120;

/** Consecutive lines of a Markdown source: a paragraph, an item of a list, or anything else. */
interface LineBlock {
  readonly firstLine: number;
  readonly lines: readonly string[];
  /** Undefined: the lines stay unchanged (code, tables, headings, pictures). */
  readonly prefix: string | undefined;
}

/** The lines, from 1, that are too long and can be wrapped. Code, tables, headings, pictures and long links are exempt. */
export const longLines = (text: string): readonly number[] =>
  blocksIn(text).flatMap((block) => {
    if (block.prefix === undefined || rewrapped(block).join('\n') === block.lines.join('\n')) return [];
    return block.lines.flatMap((line, at) => (line.length > MAX_LINE ? [block.firstLine + at] : []));
  });

/** The text, with each block that has a line over the maximum rewrapped. */
export const wrapped = (text: string): string =>
  blocksIn(text)
    .flatMap((block) =>
      block.prefix !== undefined && block.lines.some((line) => line.length > MAX_LINE) ? rewrapped(block) : block.lines,
    )
    .join('\n');

const FENCE = /^\s*(?:```|~~~)/;
const ITEM = /^(\s*)([-*+]|\d+[.)])(\s+)(?=\S)/;
/** Headings, tables, quotes, HTML, pictures and definitions of links. */
const KEPT = /^\s*(?:#{1,6} |\||>|<|!\[|\[[^\]]+\]: |---)/;

function blocksIn(text: string): readonly LineBlock[] {
  const blocks: { firstLine: number; lines: string[]; prefix: string | undefined }[] = [];
  let isCode = false;
  let isOpen = false;
  for (const [at, line] of text.split('\n').entries()) {
    const isFence = FENCE.test(line);
    const isText = !isCode && !isFence && line.trim() !== '' && !KEPT.test(line);
    if (isFence) isCode = !isCode;
    const [, indentation = /^\s*/.exec(line)?.[0] ?? '', marker = '', gap = ''] = ITEM.exec(line) ?? [];
    if (isText && isOpen && marker === '') blocks.at(-1)?.lines.push(line);
    else
      blocks.push({ firstLine: at + 1, lines: [line], prefix: isText ? `${indentation}${marker}${gap}` : undefined });
    isOpen = isText;
  }
  return blocks;
}

function rewrapped({ lines, prefix = '' }: LineBlock): readonly string[] {
  const content = lines.map((line, at) => (at === 0 ? line.slice(prefix.length) : line).trim()).join(' ');
  const indentation = ' '.repeat(prefix.length);
  const filled: string[] = [];
  let line = '';
  for (const word of wordsOf(content)) {
    if (line === '') line = word;
    else if (prefix.length + line.length + 1 + word.length <= MAX_LINE || isMarkup(word)) line += ` ${word}`;
    else {
      filled.push(line);
      line = word;
    }
  }
  return [...filled, line].map((one, at) => (at === 0 ? prefix : indentation) + one);
}

/** Whether the word, at the start of a line, would begin an item, a heading, a quote or a table. */
const isMarkup = (word: string): boolean => /^(?:[-*+>|]|\d+[.)]|#{1,6})$/.test(word);

/** The parts between which a line may break: not within code, and not within the URL of a link. */
function wordsOf(content: string): readonly string[] {
  const words = [''];
  for (const [part] of content.matchAll(/(`+)[^`].*?\1(?!`)|\]\([^)]*\)|\s+|[^\s`\]]+|./g)) {
    if (/^\s+$/.test(part)) words.push('');
    else words[words.length - 1] += part;
  }
  return words.filter((word) => word !== '');
}
