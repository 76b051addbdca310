import { longLines, MAX_LINE, wrapped } from '../../docs/wrap.ts';

const words = (count: number, word = 'word'): string => Array.from({ length: count }, () => word).join(' ');

test('a paragraph with a line that is too long is wrapped, and others are unchanged', () => {
  const text = `# ${words(40)}\n\nshort\nlines\n\n${words(40)}\nend\n`;
  expect(longLines(text)).toEqual([6]);
  const lines = wrapped(text).split('\n');
  expect(lines.slice(0, 5)).toEqual([`# ${words(40)}`, '', 'short', 'lines', '']);
  expect(lines.slice(5)).toEqual([words(24), `${words(16)} end`, '']);
  expect(longLines(wrapped(text))).toEqual([]);
});

test('an item of a list continues under its text', () => {
  expect(wrapped(`- ${words(30)}\n  end\n- next`)).toBe(`- ${words(23)}\n  ${words(7)} end\n- next`);
  expect(wrapped(`10. ${words(30)}`)).toBe(`10. ${words(23)}\n    ${words(7)}`);
});

test.each([
  ['code', `\`\`\`sh\n${words(40)}\n\`\`\``],
  ['a table', `| ${words(40)} |\n| --- |`],
  ['a picture', `![${words(40)}](a.png)`],
  ['a link that is too long by itself', `[a](https://example.com/${'x'.repeat(MAX_LINE)})`],
])('%s is unchanged', (_, text) => {
  expect(longLines(text)).toEqual([]);
  expect(wrapped(text)).toBe(text);
});

test('no line ends within code or a URL, or begins with markup', () => {
  const code = `\`${words(5)}\``;
  const text = `${words(23)} ${code} - ${words(20)} [a link](a file.md) 1. ${words(20)}`;
  const lines = wrapped(text).split('\n');
  expect(lines.join(' ')).toBe(text);
  expect(lines.some((line) => line.includes(code))).toBe(true);
  for (const line of lines) expect(line).toMatch(/^(?![-*+>|] |\d+\. )/);
  for (const line of lines) expect(line.length).toBeLessThanOrEqual(MAX_LINE);
});
