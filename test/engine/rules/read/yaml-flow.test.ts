import * as jsYaml from 'js-yaml';
import { parseYaml, YamlError, type YamlNode } from '../../../../src/engine/rules/read/yaml.ts';
import { indentFlow } from '../../../../src/engine/rules/read/yaml-flow.ts';
import fc from '../../../helpers/property.ts';

const lineBreaks = ['\n', '\n', '\n ', '\n  ', '\n\t', '\n    ', '\n\n', '\r\n', ' # c, [x\n', '\n# c]\n'];
const spaces = ['', '', ' ', '\t', ' \t', ...lineBreaks];
const plains = ['a', 'b c', "it's", 'a"b', 'k:v', '-1', '?x', 'a#b', 'a\tb', '!!str z', '&q w', '~', 'a\n  b', '|x'];
const quoteds = ['"a"', '"a,\tb]"', "'x''y, ['", '"e\\"s\\\\"', '"l1\nl2"', "'m1\n  m2'", '"z\\\n q"', '"#no"', '""'];

/** Nearly valid YAML, with brackets, quotes, block scalars and tabs in all permitted places, and in some others. */
const anyText = fc.gen().map((generate) => {
  const pick = (texts: readonly string[]): string => generate(fc.constantFrom, ...texts);
  const upTo = (count: number): number => generate(fc.nat, count);
  const repeat = (count: number, make: () => string): string[] => Array.from({ length: count }, make);
  const flow = (depth: number): string => {
    const kind = depth > 0 ? upTo(5) : 0;
    if (kind < 3) return pick(upTo(1) === 0 ? plains : quoteds);
    const around = (value: string): string => `${pick(spaces)}${value}${pick(spaces)}`;
    const items = repeat(upTo(3), () => around(`${pick(['', '', '&p '])}${flow(depth - 1)}`));
    if (kind < 5) return `[${items.join(',')}${pick(spaces)}]`;
    const pairs = items.map(
      (item) => `${around(pick([...plains, ...quoteds]))}:${pick([' ', '\t', ...lineBreaks])}${item}`,
    );
    return `{${pairs.join(',')}${pick(spaces)}}`;
  };
  const valueIn = (depth: number, pad: string): string => {
    switch (upTo(5)) {
      case 0:
        return `${pick([' |', ' >-', ' |2'])}\n${pad}   bl [ock\n${pick(['', '\n', `${pad}   "more\n`, `${pad}     {x\n`])}`;
      case 1:
        return ` plain te[xt\n${pick(['', `${pad}  cont {inued\n`, `${pad}  "c\n`])}`;
      case 2:
        return depth > 0 ? `\n${block(depth - 1, `${pad}${pick([' ', '  ', '    '])}`)}` : ' v\n';
      default:
        return `${pick([' ', '\t', ' \t', ' &an ', '\t!t\t', ' !<x,y> '])}${flow(2)}${pick(['', ' ', '\t', ' # t ['])}\n`;
    }
  };
  const block = (depth: number, pad: string): string => {
    const keys = ['k', '"q"', 'a b', '[f, g]', '&anc kk', 'x:y'];
    const entry = (): string => `${pad}${pick(keys)}${pick([':', ' :'])}${valueIn(depth, pad)}`;
    const item = (): string => `${pad}-${valueIn(depth, pad)}`;
    return repeat(1 + upTo(2), upTo(2) > 0 ? entry : item).join('');
  };
  const root = upTo(6) > 0 ? block(2, pick(['', '', ' ', '  '])) : `${flow(3)}\n`;
  return `${pick(['', '', '---\n', '\ufeff', '# c\n'])}${root}${pick(['', '', '---\nx: [a,\n b]\n'])}`;
});

/** The parser's result for a text; undefined if it is no valid YAML. */
function strictly(text: string): readonly string[] | undefined {
  try {
    const events = jsYaml.parseEvents(text, {});
    return events.map((event) =>
      'valueStart' in event ? JSON.stringify(jsYaml.getScalarValue(text, event)) : `${event.type}`,
    );
  } catch {
    return undefined;
  }
}

function show(node: YamlNode | undefined): string {
  if (node?.kind === 'map')
    return `{${node.entries.map(({ key, value }) => `${show(key)}: ${show(value)}`).join(', ')}}`;
  if (node?.kind === 'list') return `[${node.items.map(show).join(', ')}]`;
  return node?.text ?? '';
}

describe('indenting the contents of brackets, braces and quotes', () => {
  test('does not change valid YAML: neither its values nor its lines', () => {
    let valid = 0;
    fc.assert(
      fc.property(anyText, (text) => {
        const before = strictly(text);
        if (!before) return;
        valid++;
        const indented = indentFlow(text) ?? '';
        expect(strictly(indented)).toEqual(before);
        expect(indented.split('\n')).toHaveLength(text.split('\n').length);
      }),
      { numRuns: 500 },
    );
    expect(valid).toBeGreaterThan(100);
  });

  test('turns insufficient indentation into valid YAML, at any place', () => {
    let mended = 0;
    fc.assert(
      fc.property(anyText, (text) => {
        try {
          parseYaml(text);
          if (!strictly(text)) mended++;
        } catch (error) {
          if (!(error instanceof YamlError)) throw error;
        }
      }),
      { numRuns: 500 },
    );
    expect(mended).toBeGreaterThan(15);
  });

  test.each([
    ['a: [b,\n\tc,\nd]\ne: f\n', '{a: [b, c, d], e: f}'],
    ['a: [ # [\n\tb\t, # "\n]\n', '{a: [b]}'],
    ['a: [\'b\nc\', "d\n]e"]\n', '{a: [b c, d ]e]}'],
    ['a:\n  - b: [c,\nd]\n    e: {f:\tg}\n', '{a: [{b: [c, d], e: {f: g}}]}'],
    ['a: !t\t[b,\tc]\n', '{a: [b, c]}'],
    ['? [a,\nb]\n: c\n', '{[a, b]: c}'],
    ['a: |\n  [x,\n  "y\nb: [c,\nd]\n', '{a: [x,\n"y\n, b: [c, d]}'],
    ['a: it is [\n  "quoted\nb: [c,\nd]\n', '{a: it is [ "quoted, b: [c, d]}'],
    ['a: [{"b":"c,\td"},\n{e: f}]\n', '{a: [{b: c,\td}, {e: f}]}'],
    ['---\n  [a,\nb]\n', '[a, b]'],
    ['a: [b,\r\nc]\r\nd: e\r\n', '{a: [b, c], d: e}'],
  ])('%j', (text, shown) => {
    expect(strictly(text)).toBeUndefined();
    expect(show(parseYaml(text).root)).toBe(shown);
  });

  test.each([
    ['tabs that indent a block', 'a: [b,\nc]\nd:\n\t- e\n', 4],
    ['a document mark within brackets', 'a: [b,\n---\nc]\n', 2],
    ['brackets that are never closed', 'a: [b,\nc\n', 3],
  ])('leaves %s invalid', (_, text, line) => {
    expect(() => parseYaml(text)).toThrow(expect.objectContaining({ name: 'YamlError', line }));
  });

  test('accepts 1,000 lines and 1,000 tabs', () => {
    const text = `a: [${'b,\t'.repeat(1_000)}\n${'{c: d,\ne:\tf},\n'.repeat(1_000)}]\n`;
    const { root } = parseYaml(text);
    const [list] = root?.kind === 'map' ? root.entries.map(({ value }) => value) : [];
    expect(list?.kind === 'list' && list.items).toHaveLength(2_000);
  });

  test('gives up if a text would become more than four times as long', () => {
    const far = ' '.repeat(50_000);
    expect(indentFlow(`a:\n${far}b: [x,\n${'y,\n'.repeat(1_000)}]\n`)).toBeUndefined();
    expect(() => parseYaml(`a:\n${far}b: [x,\n${'y,\n'.repeat(1_000)}]\n`)).toThrow('deficient indentation');
  });
});

describe('half a megabyte', () => {
  const lists: Readonly<Record<string, string>> = {
    'of a list in brackets with tabs': `a: [${'b,\t'.repeat(170_000)}]\n`,
    'of braces over two lines each': `a:\n${'  - {b: c,\nd:\te}\n'.repeat(28_000)}`,
    'of a quoted text whose lines are at the left': `a: "${'b\n'.repeat(250_000)}"\n`,
  };

  test.each(Object.entries(lists))('%s is parsed twice, with at most four times as many characters', (_, text) => {
    const parse = jest.spyOn(jest.requireActual<typeof jsYaml>('js-yaml'), 'parseEvents'); // counts calls, and still parses
    try {
      parseYaml(text);
      const lengths = parse.mock.calls.map(([parsed]) => parsed.length);
      expect(lengths).toHaveLength(2);
      expect(lengths[0]).toBe(text.length);
      expect(lengths[1]).toBeLessThanOrEqual(4 * text.length + 65_536);
    } finally {
      parse.mockRestore();
    }
  });
});
