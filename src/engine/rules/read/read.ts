import type { Json, JsonObject } from '../../../base/json.ts';
import { nearest } from '../../../base/nearest.ts';
import { addressBlockProblem, addressBlockText, parseAddressBlock } from './address-block.ts';
import type { Alternatives, Block } from './block.ts';
import { ADDRESS_BLOCK, type Field, format, goTypes, referenceKeys, type Shape } from './format.ts';
import { type Place, type Problems, pathOfKey, shown } from './problem.ts';
import {
  parseFlag,
  parseInteger,
  type ScalarType,
  type YamlError,
  type YamlMap,
  type YamlNode,
  type YamlScalar,
} from './yaml.ts';
import { type Gap, parseAroundErrors } from './yaml-recovery.ts';

/** Maximum of a count, unless the format says more. */
const MAX_UINT32 = 0xffff_ffff;

const shapes: Readonly<Record<string, Readonly<Record<string, Field>>>> = format;

/**
 * Parses the text of a rule file, or a text in the same format: returns its block, or none if nothing of the text is
 * valid YAML. All errors go to `problems`.
 */
export function readText(file: string, text: string, problems: Problems): Block<'file'>[] {
  const { parsed, errors, gaps } = parseAroundErrors(text);
  for (const error of errors)
    problems.error({ file, line: error.line, column: error.column, path: '' }, yamlProblem(error));
  if (!parsed) return [];
  for (const line of parsed.moreDocumentsAt)
    problems.warn({ file, line, path: '' }, 'only the first YAML document of a file is read; this one is ignored');
  const block = readFile(new Reader(file, gaps, problems), parsed.root);
  return block ? [block] : [];
}

/** Begins like the message of envoyproxy/ratelimit, whose parser has other words for syntax errors. */
function yamlProblem({ kind, line, message }: YamlError): string {
  const begin = { syntax: `yaml: line ${line}: `, content: 'yaml: ', size: '' };
  return `error loading config file: ${begin[kind]}${message}`;
}

/** Reads the root of a rule file. All errors go to the reader's problems; the block has the valid values. */
function readFile(reader: Reader, root: YamlNode | undefined): Block<'file'> | undefined {
  const place = reader.at(root ?? emptyMap(1), '');
  if (!root || isNull(root)) return reader.block('file', emptyMap(1), place);
  return root.kind === 'map' ? reader.block('file', root, place) : reader.mismatch(place, 'a mapping', root);
}

/** The values of a block, and the nodes of their keys. */
interface ReadEntries {
  readonly values: Map<string, unknown>;
  readonly keys: Map<string, YamlNode>;
}

class Reader {
  private readonly file: string;
  private readonly gaps: readonly Gap[];
  private readonly problems: Problems;
  private readonly lastLines = new Map<YamlNode, number>();

  constructor(file: string, gaps: readonly Gap[], problems: Problems) {
    this.file = file;
    this.gaps = gaps;
    this.problems = problems;
  }

  block<S extends Shape>(shape: S, map: YamlMap, place: Place): Block<S> {
    const read: ReadEntries = { values: new Map(), keys: new Map() };
    for (const entry of map.entries) this.entry(shape, entry, place.path, read);
    const { values, keys } = read;
    const right = [...values].filter(([, value]) => value !== undefined && value !== null);
    const lost = this.hasGap(map, place.path) ? Object.keys(shapes[shape] ?? {}) : [];
    return {
      values: Object.fromEntries(right) as Block<S>['values'], // each was read according to the format
      invalid: new Set([...lost, ...values.keys()].filter((key) => values.get(key) === undefined)),
      empty: new Set([...values.keys()].filter((key) => values.get(key) === null)),
      place: (key) =>
        key === undefined
          ? place
          : { ...place, ...findPosition(keys.get(String(key))), path: pathOfKey(place.path, String(key)) },
    };
  }

  /** Whether keys of the mapping may be in lines that were left out. */
  private hasGap(map: YamlMap, path: string): boolean {
    if (this.gaps.length === 0) return false;
    const [from, to, column = 1] = [map.line, this.lastLine(map), map.column];
    return (
      path === '' ||
      this.gaps.some(
        ({ first, last, indent }) =>
          last >= from - 1 && first <= to + 1 && ((first > from && last < to) || indent >= column - 1),
      )
    );
  }

  private lastLine(node: YamlNode): number {
    if (node.kind === 'scalar') return node.line;
    const known = this.lastLines.get(node);
    if (known !== undefined) return known;
    const below = node.kind === 'list' ? node.items : node.entries.map(({ value }) => value);
    const last = below.reduce((latest, one) => Math.max(latest, this.lastLine(one)), node.line);
    this.lastLines.set(node, last);
    return last;
  }

  private entry(
    shape: Shape,
    { key, value }: YamlMap['entries'][number],
    path: string,
    { values, keys }: ReadEntries,
  ): void {
    if (key.kind !== 'scalar' || key.type !== 'text') {
      this.problems.error(this.at(key, path), `${wrongKey(key)}; put the key in quotes`);
      return;
    }
    const place = this.at(key, pathOfKey(path, shown(key.text)));
    const field = Object.hasOwn(shapes[shape] ?? {}, key.text) ? shapes[shape]?.[key.text] : undefined;
    if (!field) {
      this.unknownKey(shape, key, place);
      return;
    }
    const before = keys.get(key.text);
    if (before)
      this.problems.warn(place, `duplicate key '${key.text}', also on line ${before.line}; the last one counts`);
    keys.set(key.text, key);
    values.set(key.text, isNull(value) ? null : this.value(field, value, { ...place, ...findPosition(value) }));
  }

  private unknownKey(shape: Shape, key: YamlScalar, place: Place): void {
    const known = Object.keys(shapes[shape] ?? {}).join(', ');
    if (referenceKeys.has(key.text))
      this.problems.warn(place, `'${key.text}' has no effect here and is ignored; this block takes ${known}`);
    else this.problems.error(place, `${wrongKey(key)}; ${hintFor(shape, key.text) ?? `expected one of ${known}`}`);
  }

  private value(field: Field, node: YamlNode, place: Place): unknown {
    if ('orBlock' in field && field.orBlock !== undefined && node.kind === 'map')
      return this.block(field.orBlock as Shape, node, place); // the format names only its own blocks
    switch (field.type) {
      case 'list':
        return this.list(field.of as Shape, node, place); // the format names only its own blocks
      case 'block':
        if (node.kind !== 'map') {
          const hint = node.kind === 'list' && field.of === 'rate_limit' ? '; several limits go under rate_limits' : '';
          return this.mismatch(place, 'a mapping', node, hint);
        }
        return this.block(field.of as Shape, node, place);
      case 'struct':
        if (node.kind !== 'map') return this.mismatch(place, 'a mapping', node);
        return readMetadata(node, place, this.problems);
      case 'texts':
        return field.pattern === ADDRESS_BLOCK ? this.addresses(node, place) : this.texts(node, place);
      case 'text':
        return this.scalar('text', node, place);
      case 'keys':
        return this.alternatives(node, place);
      case 'count': // smaller bounds are checked where the key is used
        return this.scalar('count', node, place, Math.max(field.maximum ?? 0, MAX_UINT32));
      default:
        return this.scalar(field.type, node, place);
    }
  }

  private list(shape: Shape, node: YamlNode, place: Place): readonly Block<Shape>[] | undefined {
    if (node.kind !== 'list') return this.mismatch(place, 'a list', node);
    return node.items.flatMap((item, index) => {
      const at = { ...place, ...findPosition(item), path: `${place.path}[${index}]` };
      if (item.kind === 'map') return [this.block(shape, item, at)];
      this.problems.error(at, `${NO_MAP}${shown(asGoPrints(item))}`);
      return [];
    });
  }

  /** A single text is a list of one. */
  private texts(node: YamlNode, place: Place): readonly string[] | undefined {
    const items = node.kind === 'list' ? node.items : [node];
    if (items.length === 0) return this.mismatch(place, 'at least one text', node);
    const texts = items.flatMap((item) => this.scalar('text', item, { ...place, ...findPosition(item) }) ?? []);
    return texts.length === items.length ? texts.map(String) : undefined;
  }

  /** A list of texts is a single alternative. */
  private alternatives(node: YamlNode, place: Place): Alternatives | undefined {
    const items = node.kind === 'list' && node.items.some(({ kind }) => kind === 'list') ? node.items : [node];
    const read = items.flatMap((item) => {
      const keys = this.texts(item, { ...place, ...findPosition(item) });
      return keys ? [keys] : [];
    });
    return read.length === items.length ? read : undefined;
  }

  /** Each block in its shortest form. */
  private addresses(node: YamlNode, place: Place): readonly string[] | undefined {
    const texts = this.texts(node, place);
    const blocks = texts?.flatMap((text, at) => {
      const problem = addressBlockProblem(text);
      const block = problem === undefined ? parseAddressBlock(text) : undefined;
      if (block) return [addressBlockText(block)];
      const item = node.kind === 'list' ? node.items[at] : node;
      this.problems.error({ ...place, ...findPosition(item) }, `invalid address block '${shown(text)}': ${problem}`);
      return [];
    });
    return blocks?.length === texts?.length ? blocks : undefined;
  }

  /** @param most  the largest count */
  private scalar(
    type: 'text' | 'count' | 'flag',
    node: YamlNode,
    place: Place,
    most = MAX_UINT32,
  ): string | number | boolean | undefined {
    const expected = type === 'count' ? `a whole number from 0 to ${most}` : expectedTexts[type];
    if (node.kind !== 'scalar') return this.mismatch(place, expected, node);
    if (node.type === 'float')
      return this.mismatch(place, expected, node, type === 'text' ? `; put it in quotes: "${node.text}"` : '');
    if (type === 'text') return node.text;
    if (type === 'flag') return node.type === 'flag' ? parseFlag(node.text) : this.mismatch(place, expected, node);
    if (node.type !== 'integer')
      return this.mismatch(place, expected, node, /^\d+$/.test(node.text) ? '; remove the quotes' : '');
    const count = parseInteger(node.text);
    return count >= 0n && count <= BigInt(most) ? Number(count) : this.mismatch(place, expected, node);
  }

  mismatch(place: Place, expected: string, node: YamlNode, hint = ''): undefined {
    const begin = goError(node, place.path);
    const message = begin
      ? `${begin}; expected ${expected}`
      : `error ${isFloat(node) ? 'checking config' : 'loading config file'}: expected ${expected}, got ${describe(node)}`;
    return this.problems.error(place, `${message}${hint}`);
  }

  at(node: YamlNode, path: string): Place {
    return { file: this.file, line: node.line, column: node.column, path };
  }
}

/**
 * Reads a node's `metadata`, which is sent to the proxy with the answer. Values have their YAML 1.1 types; integers
 * beyond 2^53 become the nearest number. Keys become text: on the first level as written, below it the text of their
 * value (`010: x` is key `8`), as in envoyproxy/ratelimit. Values without a JSON equivalent are added to `problems`.
 *
 * @param place  of the block: `descriptors[2].metadata`
 */
function readMetadata(map: YamlMap, { file, path }: Place, problems: Problems): JsonObject {
  const toObject = (from: YamlMap, keyOf: (key: YamlScalar) => string): JsonObject => {
    const entries = from.entries.flatMap(({ key, value }): (readonly [string, Json])[] => {
      if (key.kind === 'scalar') return [[keyOf(key), toJson(value)]];
      problems.error({ file, line: key.line, path }, wrongKey(key));
      return [];
    });
    return Object.fromEntries(entries);
  };
  const toJson = (node: YamlNode): Json => {
    if (node.kind === 'map') return toObject(node, (key) => String(toScalar(key)));
    return node.kind === 'list' ? node.items.map(toJson) : toScalar(node);
  };
  return toObject(map, ({ text }) => text);
}

function toScalar({ type, text }: YamlScalar): null | boolean | number | string {
  switch (type) {
    case 'null':
      return null;
    case 'flag':
      return parseFlag(text);
    case 'integer':
      return Number(parseInteger(text));
    case 'float':
      return parseYamlFloat(text.replaceAll('_', ''));
    case 'text':
      return text;
  }
}

function parseYamlFloat(text: string): number {
  const word = text.replace(/^[-+]/, '').toLowerCase();
  if (word === '.nan') return Number.NaN;
  if (word === '.inf') return text.startsWith('-') ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY;
  return Number(text);
}

/** What Go says of a value of another type, on one line; undefined for fractions, and for keys that only Weir has. */
function goError(node: YamlNode, path: string): string | undefined {
  const key = path.slice(path.lastIndexOf('.') + 1);
  const type = key === '' ? 'map[interface {}]interface {}' : goTypes[key];
  if (type === undefined) return undefined;
  if (key !== '' && key !== 'metadata') {
    if (isFloat(node)) return undefined;
    const item = node.kind === 'list' ? node.items.find(({ kind }) => kind !== 'map') : undefined;
    if (item) return `${NO_MAP}${shown(asGoPrints(item))}`;
    const wrong = node.kind === 'map' ? node.entries.find((entry) => !isReferenceKey(entry.key)) : undefined;
    if (wrong) return wrongKey(wrong.key);
  }
  return `error loading config file: yaml: unmarshal errors: line ${node.line}: cannot unmarshal ${asGoDescribes(node)} into ${type}`;
}

/** Of an item of a list. */
const NO_MAP = 'config error, yaml file contains list of type other than map: ';

const isReferenceKey = (key: YamlNode): boolean => key.kind === 'scalar' && referenceKeys.has(key.text);

/** Go prints a mapping or a list in its own syntax. */
function wrongKey(key: YamlNode): string {
  if (key.kind !== 'scalar') return `error loading config file: yaml: invalid map key: ${describe(key)}`;
  if (key.type !== 'text') return `config error, key is not of type string: ${asGoPrints(key)}`;
  return `config error, unknown key '${shown(key.text)}'`;
}

/** The tag, and the text up to ten bytes. */
function asGoDescribes(node: YamlNode): string {
  if (node.kind !== 'scalar') return node.kind === 'map' ? '!!map' : '!!seq';
  const text = Buffer.from(node.text);
  return `${goTags[node.type]} \`${text.length > 10 ? `${text.subarray(0, 7)}...` : text}\``;
}

const goTags: Readonly<Record<ScalarType, string>> = {
  text: '!!str',
  integer: '!!int',
  float: '!!float',
  flag: '!!bool',
  null: '!!null',
};

/** The position of a key, if it is known. */
const findPosition = (node: YamlNode | undefined): Partial<Pick<Place, 'line' | 'column'>> =>
  node ? { line: node.line, column: node.column } : {};

/** A hint for an unknown key: a similar one, or the block that it belongs to. */
function hintFor(shape: Shape, key: string): string | undefined {
  const meant = nearest(key, Object.keys(shapes[shape] ?? {}));
  if (meant !== undefined) return `did you mean '${meant}'?`;
  const home = Object.keys(shapes).find((other) => Object.hasOwn(shapes[other] ?? {}, key));
  return home === undefined ? undefined : `it goes into ${blockNames[home] ?? home}`;
}

/** Blocks whose key differs from their name in the format, or that have none. */
const blockNames: Readonly<Partial<Record<string, string>>> = {
  file: 'the file itself',
  node: 'a node of descriptors',
  scheduled: 'schedule',
  anchor: 'alignment',
  child: 'share of a node below',
};

const expectedTexts = {
  text: 'text',
  flag: 'true or false',
} as const;

const typeNames: Readonly<Record<ScalarType, string>> = {
  text: 'the text',
  integer: 'the number',
  float: 'the number',
  flag: 'the flag',
  null: 'nothing',
};

function describe(node: YamlNode): string {
  if (node.kind === 'map') return 'a mapping';
  if (node.kind === 'list') return 'a list';
  return node.type === 'null' ? typeNames.null : `${typeNames[node.type]} '${shown(node.text)}'`;
}

/** Printed as in the message of envoyproxy/ratelimit, so that a search for that finds this one. */
function asGoPrints(node: YamlNode): string {
  if (node.kind === 'list') return `[${node.items.map(asGoPrints).join(' ')}]`;
  if (node.kind === 'map')
    return `map[${node.entries
      .map(({ key, value }) => `${asGoPrints(key)}:${asGoPrints(value)}`)
      .sort()
      .join(' ')}]`;
  return isNull(node) ? '<nil>' : String(node.type === 'integer' ? parseInteger(node.text) : toScalar(node));
}

const emptyMap = (line: number): YamlMap => ({ kind: 'map', line, entries: [] });
const isNull = (node: YamlNode): boolean => node.kind === 'scalar' && node.type === 'null';
const isFloat = (node: YamlNode): boolean => node.kind === 'scalar' && node.type === 'float';
