import {
  parseFlag,
  parseInteger,
  parseYaml,
  type ScalarType,
  YamlError,
  type YamlNode,
} from '../../../../src/engine/rules/read/yaml.ts';

/** A node in YAML's flow style, scalars as their text: `{a: 1, b: [x, y]}`. */
function show(node: YamlNode | undefined): string | undefined {
  if (node?.kind === 'map')
    return `{${node.entries.map(({ key, value }) => `${show(key)}: ${show(value)}`).join(', ')}}`;
  if (node?.kind === 'list') return `[${node.items.map(show).join(', ')}]`;
  return node?.text;
}

const parsed = (text: string): string | undefined => show(parseYaml(text).root);

/** The line of each node by its path, keys included: `user[0].key: 3`. */
function linesOf(node: YamlNode, path = ''): string[] {
  const own = `${path || '(root)'}: ${node.line}`;
  if (node.kind === 'list') return [own, ...node.items.flatMap((item, at) => linesOf(item, `${path}[${at}]`))];
  if (node.kind === 'scalar') return [own];
  const below = node.entries.flatMap(({ key, value }) => {
    const name = `${path}.${show(key)}`;
    return [`key ${name}: ${key.line}`, ...linesOf(value, name)];
  });
  return [own, ...below];
}

/** The one value of a mapping such as `a: 5`. */
function onlyValue(text: string): YamlNode | undefined {
  const { root } = parseYaml(text);
  return root?.kind === 'map' ? root.entries[0]?.value : undefined;
}

function failure(text: string): { readonly line: number; readonly message: string } {
  try {
    parseYaml(text);
  } catch (error) {
    if (error instanceof YamlError) return { line: error.line, message: error.message };
    throw error;
  }
  throw new Error('it was parsed');
}

describe('line numbers', () => {
  const text = `# a comment

domain: demo
descriptors:
  - key: 'quoted'
    value: "folded
      over lines"
  -
    note: |
      block
      text
    empty:
    flow: [a,
      {b: c}]
`;

  test.each([
    ['line feeds', text],
    ['carriage returns and line feeds', text.replaceAll('\n', '\r\n')],
    ['a byte order mark', `\uFEFF${text}`],
  ])('are those in the file, with %s', (_, written) => {
    const { root } = parseYaml(written);
    expect(root && linesOf(root)).toEqual([
      '(root): 3',
      'key .domain: 3',
      '.domain: 3',
      'key .descriptors: 4',
      '.descriptors: 5',
      '.descriptors[0]: 5',
      'key .descriptors[0].key: 5',
      '.descriptors[0].key: 5',
      'key .descriptors[0].value: 6',
      '.descriptors[0].value: 6',
      '.descriptors[1]: 9',
      'key .descriptors[1].note: 9',
      '.descriptors[1].note: 10',
      'key .descriptors[1].empty: 12',
      '.descriptors[1].empty: 12',
      'key .descriptors[1].flow: 13',
      '.descriptors[1].flow: 13',
      '.descriptors[1].flow[0]: 13',
      '.descriptors[1].flow[1]: 14',
      'key .descriptors[1].flow[1].b: 14',
      '.descriptors[1].flow[1].b: 14',
    ]);
  });
});

describe('scalars', () => {
  const typed: readonly (readonly [ScalarType, string])[] = [
    ['flag', 'y Y yes Yes YES n N no No NO true True TRUE false False FALSE on On ON off Off OFF'],
    ['text', 'yEs tRUE oN truee nope nil nULL'],
    ['null', '~ null Null NULL'],
    ['integer', '0 7 -7 +7 010 -010 0o17 0O17 0x1F +0x1f 0b101 -0b11 1_000 0x_ff'],
    ['integer', '9223372036854775807 -9223372036854775808'],
    ['float', '9223372036854775808 -9223372036854775809 18446744073709551616'], // more than 64 bits hold
    ['float', '1.5 -1.5 +1.5 1. .5 1e3 5e10 1.5E-3 1_0.5 08 .inf +.Inf -.INF .nan .NaN .NAN'],
    ['text', '1:30 12:30:45 2024-01-01 1.2.3.4 0b12 0o8 0x 0xg 12ab 1e 1e+ + . +-1 _1 .5.5 inf nan -.nan'],
  ];
  test.each(typed.flatMap(([type, texts]) => texts.split(' ').map((text) => [text, type] as const)))(
    'plain %s is %s, and keeps its text',
    (text, type) => {
      expect(onlyValue(`a: ${text}`)).toEqual({ kind: 'scalar', line: 1, column: 4, text, type });
    },
  );

  test.each(['1e400', '8e12345', '-1e400'])('plain %s is text, like short hashes: no double holds it', (text) => {
    expect(onlyValue(`a: ${text}`)).toMatchObject({ text, type: 'text' });
  });

  test.each<[string, string, ScalarType]>([
    ['a:', '', 'null'],
    ['a: ""', '', 'text'],
    ['a: "5"', '5', 'text'],
    ["a: 'yes'", 'yes', 'text'],
    ["a: 'it''s'", "it's", 'text'],
    ['a: "a\\tb\\x41"', 'a\tbA', 'text'],
    ['a: |\n  5\n', '5\n', 'text'],
    ['a: >-\n  yes\n  no\n', 'yes no', 'text'],
    ['a: !!str 5', '5', 'text'],
    ['a: !!int "5"', '5', 'integer'],
    ['a: b # a comment', 'b', 'text'],
    ['a: b#c', 'b#c', 'text'],
  ])('of %j: text %j, %s', (text, value, type) => {
    expect(onlyValue(text)).toMatchObject({ text: value, type });
  });

  test.each([
    ['0', 0n],
    ['1_000', 1000n],
    ['010', 8n],
    ['0_1_0', 8n],
    ['-010', -8n],
    ['0o17', 15n],
    ['0x1F', 31n],
    ['-0xff', -255n],
    ['+7', 7n],
    ['0b101', 5n],
    ['9223372036854775807', 9223372036854775807n],
  ])('the integer %s is %s', (text, value) => {
    expect(parseInteger(text)).toBe(value);
  });

  test('booleans are true or false in any spelling', () => {
    const all = 'y Y yes Yes YES true True TRUE on On ON n N no No NO false False FALSE off Off OFF'.split(' ');
    expect(all.filter(parseFlag)).toEqual('y Y yes Yes YES true True TRUE on On ON'.split(' '));
  });
});

describe('anchors, aliases and merge keys', () => {
  test.each([
    ['an alias stands for what its anchor marks', 'a: &x {p: 1}\nb: *x', '{a: {p: 1}, b: {p: 1}}'],
    ['of a scalar', 'a: &x 1\nb: [*x, *x]', '{a: 1, b: [1, 1]}'],
    ['of nothing', 'a: &x\nb: *x', '{a: , b: }'],
    ['an anchor given again: the last one before the alias', '[&x 1, *x, &x 2, *x]', '[1, 1, 2, 2]'],
    [
      'a merge brings entries along',
      'a: &x {p: 1, q: 2}\nb: {<<: *x, r: 3}',
      '{a: {p: 1, q: 2}, b: {p: 1, q: 2, r: 3}}',
    ],
    ['its own keys win', 'a: &x {p: 1, q: 2}\nb: {<<: *x, p: 3}', '{a: {p: 1, q: 2}, b: {q: 2, p: 3}}'],
    ['its own keys win even if they come first', 'a: &x {p: 1}\nb: {p: 3, <<: *x}', '{a: {p: 1}, b: {p: 3}}'],
    ['of several sources the first wins', 'b: {<<: [{p: 1}, {p: 2, q: 3}]}', '{b: {p: 1, q: 3}}'],
    ['a merge of what was merged', '[&x {p: 1}, &y {<<: *x, q: 2}, {<<: *y}]', '[{p: 1}, {p: 1, q: 2}, {p: 1, q: 2}]'],
    ['a merge of nothing but an empty mapping', 'b: {<<: {}, p: 1}', '{b: {p: 1}}'],
  ])('%s', (_, text, shown) => {
    expect(parsed(text)).toBe(shown);
  });
});

describe('invalid YAML', () => {
  test.each([
    ["'''\n", 2, 'unexpected end of the stream within a single quoted scalar'],
    ['a: 1\nb: [1, 2\nc: 3\n', 3, 'missed comma between flow collection entries'],
    ['a:\n\t- b\n', 2, 'a tab indents this line; YAML allows only spaces there: replace the tab'],
    ['a:\n  b: 1\n \tc: 2\n', 3, 'a tab indents this line; YAML allows only spaces there: replace the tab'],
    ['a: b\nc: d: e\n', 2, 'bad indentation of a mapping entry'],
    ['a: 1\nb: *nope\n', 2, `unknown anchor 'nope' referenced; if the text is meant, put it in quotes: "*nope"`],
    ['a: &x [*x]\n', 1, `unknown anchor 'x' referenced; if the text is meant, put it in quotes: "*x"`], // itself
    ['a: &x 1\n---\nb: *x\n', 3, `unknown anchor 'x' referenced; if the text is meant, put it in quotes: "*x"`], // anchors are only valid in their document
    ['a: 1\nb:\n  <<: 5\n', 3, 'map merge requires map or sequence of maps as the value'],
    ['b:\n  <<: [{p: 1}, q]\n', 2, 'map merge requires map or sequence of maps as the value'],
  ])('%j: line %d, %s', (text, line, message) => {
    expect(failure(text)).toEqual({ line, message });
  });

  /** Each item is ten times the previous one: `- &a0 x`, `- &a1 [*a0, *a0, …]`, … */
  const laughs = (items: number): string =>
    Array.from({ length: items }, (_, at) =>
      at === 0
        ? 'x'
        : `[${Array(10)
            .fill(`*a${at - 1}`)
            .join(', ')}]`,
    )
      .map((item, at) => `- &a${at} ${item}\n`)
      .join('');

  test('aliases of 10^20 values are refused, not expanded', () => {
    expect(failure(laughs(21))).toEqual({
      line: 7,
      message: 'the file holds more than 1000000 values, aliases written out',
    });
  });

  test('aliases of many values, within the limit, are expanded', () => {
    expect(parsed(laughs(6))?.match(/x/g)).toHaveLength(111_111);
  });

  const longText = 'x'.repeat(64_000);
  test.each([
    ['of a text of 64,000 characters', `- &a ${longText}\n${'- *a\n'.repeat(2_000)}`, 1_000],
    ['of a list of 1,000 items', `- &a [${'x,'.repeat(1_000)}]\n${'- *a\n'.repeat(2_000)}`, 1_000],
    ['of a mapping that is merged', `- &a {${'k: v,'.repeat(500)}}\n${'- {<<: *a}\n'.repeat(2_000)}`, 1_000],
  ])('aliases %s are refused at the line where they exceed the number of values', (_, text, line) => {
    const refused = failure(text);
    expect(refused.message).toBe('the file holds more than 1000000 values, aliases written out');
    expect(Math.abs(refused.line - line)).toBeLessThan(20);
  });

  test('aliases that are nested deeper than values may be are refused', () => {
    const chain = (links: number): string =>
      `- &a0 [x]\n${Array.from({ length: links }, (_, at) => `- &a${at + 1} [*a${at}]\n`).join('')}`;
    expect(parsed(chain(97))).toContain('x');
    expect(failure(chain(120))).toEqual({ line: 100, message: 'values are nested more than 100 levels deep' });
  });

  test.each([
    ['lists', '['.repeat(100_000)],
    ['lists that are closed', `${'['.repeat(20_000)}${']'.repeat(20_000)}`],
    ['lists in block style', `${'- '.repeat(100_000)}x`],
    ['mappings', `${'{a: '.repeat(100_000)}`],
  ])('%s nested endlessly', (_, text) => {
    expect(failure(text)).toEqual({ line: 1, message: 'values are nested more than 100 levels deep' });
  });
});

describe('documents', () => {
  test.each<[string, string | undefined, readonly number[]]>([
    ['', undefined, []],
    ['\n\n# nothing here\n', undefined, []],
    ['---\n', '', []],
    ['%YAML 1.1\n---\na: 1\n', '{a: 1}', []],
    ['a: 1\n---\nb: 2\n---\n\nc: 3\n', '{a: 1}', [3, 6]],
    ['---\n---\na: 1\n', '', [3]],
    ['a: 1\n...\n', '{a: 1}', []],
  ])('of %j: the first is %j, further ones on lines %j', (text, first, moreDocumentsAt) => {
    const { root, ...rest } = parseYaml(text);
    expect(show(root)).toBe(first);
    expect(rest).toEqual({ moreDocumentsAt });
  });
});
