import { EVENT_ID, type Event, getScalarValue, parseEvents, SCALAR_STYLE, YAMLException } from 'js-yaml';
import { indentFlow } from './yaml-flow.ts';

/**
 * A YAML value with its line and column in the file (from 1; without a column if that is unknown). Aliases and merge
 * keys are resolved.
 */
export type YamlNode = YamlMap | YamlList | YamlScalar;

export interface YamlMap {
  readonly kind: 'map';
  readonly line: number;
  readonly column?: number | undefined;
  readonly entries: readonly YamlEntry[];
}
interface YamlEntry {
  readonly key: YamlNode;
  readonly value: YamlNode;
}
interface YamlList {
  readonly kind: 'list';
  readonly line: number;
  readonly column?: number | undefined;
  readonly items: readonly YamlNode[];
}
export interface YamlScalar {
  readonly kind: 'scalar';
  readonly line: number;
  readonly column?: number | undefined;
  /** As written: `yes`, `010` and `1_000` are not converted. */
  readonly text: string;
  readonly type: ScalarType;
}

export interface YamlFile {
  /** The first document; undefined if the file has none. */
  readonly root: YamlNode | undefined;
  /** The lines at which further documents begin, which are not read. */
  readonly moreDocumentsAt: readonly number[];
}

/** Maximum number of values in a file with all aliases expanded; a few kilobytes of aliases can expand to billions. */
const MAX_VALUES = 1_000_000;
/** A text counts as one more value for each of this many characters. */
const VALUE_CHARACTERS = 64;
/** Maximum nesting of values with aliases expanded; a level of rules takes two or three. */
const MAX_DEPTH = 100;
const TOO_DEEP = `values are nested more than ${MAX_DEPTH} levels deep`;

/**
 * syntax  the text cannot be read beyond the error
 * content an alias or a merge that is not valid
 * size    too many values, or nested too deep
 */
type YamlErrorKind = 'syntax' | 'content' | 'size';

/** An error in a YAML text, with its position. */
export class YamlError extends Error {
  override readonly name = 'YamlError';
  readonly line: number;
  readonly column: number | undefined;
  readonly kind: YamlErrorKind;
  constructor(message: string, line: number, column?: number, kind: YamlErrorKind = 'content') {
    super(message);
    this.line = line;
    this.column = column;
    this.kind = kind;
  }
}

/**
 * Parses a YAML file, keeping line numbers and the text of scalars.
 *
 * @throws YamlError  invalid syntax, unknown alias, merge of a value that is not a mapping, too many values or nested
 * too deep
 */
export function parseYaml(text: string): YamlFile {
  const documents = createComposer(text).documents();
  return { root: documents[0]?.root, moreDocumentsAt: documents.slice(1).map(({ line }) => line) };
}

/**
 * Parses the text, and once more if inside brackets, braces or quotes lines have less indentation than YAML requires
 * (down to a closing bracket in the first column) or tabs separate values: Go's yaml.v2 accepts that, and such files
 * are common.
 */
function createComposer(text: string): Composer {
  try {
    return new Composer(text, readEvents(text), true);
  } catch (error) {
    const isIndentation = error instanceof YamlError && error.message === DEFICIENT;
    const indented = isIndentation ? indentFlow(text) : undefined;
    if (indented === undefined) throw error;
    return new Composer(indented, readEvents(indented), false); // its columns differ from the file's
  }
}

/** @throws YamlError  invalid syntax, or nested too deep */
function readEvents(text: string): readonly Event[] {
  try {
    return parseEvents(text, { maxDepth: MAX_DEPTH });
  } catch (error) {
    if (!(error instanceof YAMLException)) throw error;
    const reason = error.reason.startsWith('nesting exceeded') ? TOO_DEEP : error.reason;
    const { line = 0, column = 0 } = error.mark ?? {};
    if (reason !== DEFICIENT && isIndentedByTab(text, line)) throw new YamlError(TAB, line + 1, column + 1, 'syntax');
    const kind = reason === TOO_DEEP ? 'size' : 'syntax';
    throw new YamlError(`${reason}${hintFor(reason)}`, line + 1, column + 1, kind);
  }
}

/** An error after which flow collections are indented, and read again. */
const DEFICIENT = 'deficient indentation';

const TAB = 'a tab indents this line; YAML allows only spaces there: replace the tab';

const isIndentedByTab = (text: string, at: number): boolean => /^ *\t/.test(text.split('\n', at + 1)[at] ?? '');

function hintFor(reason: string): string {
  return reason.startsWith('name of an alias node') ? '; put a value that begins with * in quotes: "*"' : '';
}

/** The size of a node when an alias is expanded to it. */
interface Extent {
  readonly values: number;
  readonly depth: number;
}

/** Builds nodes from the parser's flat list of events in one pass. */
class Composer {
  private readonly text: string;
  private readonly events: readonly Event[];
  /** Whether the text is the file's, so that columns are meaningful. */
  private readonly hasColumns: boolean;
  private readonly anchors = new Map<string, { readonly node: YamlNode; readonly extent: Extent }>();
  /** The number of values so far, with aliases expanded. */
  private values = 0;
  /** The depth of the next value, and the maximum since the start of the collection around it. */
  private depth = 0;
  private deepest = 0;
  private at = 0;
  /** The last place, and where its line begins and ends. */
  private line = 1;
  private column: number | undefined;
  private lineStart = 0;
  private lineEnd: number;

  constructor(text: string, events: readonly Event[], hasColumns: boolean) {
    this.text = text;
    this.hasColumns = hasColumns;
    this.events = events;
    this.lineEnd = text.indexOf('\n');
  }

  documents(): { root: YamlNode | undefined; line: number }[] {
    const documents = [];
    while (this.events[this.at]?.type === EVENT_ID.DOCUMENT) {
      this.at++;
      this.anchors.clear();
      const root = this.events[this.at]?.type === EVENT_ID.POP ? undefined : this.node();
      this.at++; // the end of the document
      documents.push({ root, line: root?.line ?? this.line });
    }
    return documents;
  }

  private node(): YamlNode {
    const event = this.events[this.at++];
    switch (event?.type) {
      case EVENT_ID.SCALAR: {
        const node = this.scalar(event);
        const values = 1 + Math.floor(node.text.length / VALUE_CHARACTERS);
        this.count(values);
        return this.keep(event, node, { values, depth: 0 });
      }
      case EVENT_ID.SEQUENCE: {
        const place = this.placeOf(event.start);
        const [items, extent] = this.untilPop();
        return this.keep(event, { kind: 'list', ...place, items }, extent);
      }
      case EVENT_ID.MAPPING: {
        const place = this.placeOf(event.start);
        const [flat, extent] = this.untilPop();
        return this.keep(event, { kind: 'map', ...place, entries: merged(pairs(flat)) }, extent);
      }
      case EVENT_ID.ALIAS:
        return this.alias(event);
      default:
        throw new YamlError('unexpected end of the file', this.line);
    }
  }

  private alias(event: Extract<Event, { type: typeof EVENT_ID.ALIAS }>): YamlNode {
    const name = this.text.slice(event.anchorStart, event.anchorEnd);
    const found = this.anchors.get(name);
    const { line, column } = this.placeOf(event.anchorStart);
    if (!found) {
      const message = `unknown anchor '${name}' referenced; if the text is meant, put it in quotes: "*${name}"`;
      throw new YamlError(message, line, column);
    }
    const { node, extent } = found;
    this.deepest = Math.max(this.deepest, this.depth + extent.depth);
    if (this.deepest > MAX_DEPTH) throw new YamlError(TOO_DEEP, this.line, undefined, 'size');
    this.count(extent.values);
    return node;
  }

  private scalar(event: Extract<Event, { type: typeof EVENT_ID.SCALAR }>): YamlScalar {
    const text = getScalarValue(this.text, event);
    const place = event.valueStart < 0 ? { line: this.line, column: this.column } : this.placeOf(event.valueStart);
    const tag = event.tagStart < 0 ? undefined : this.text.slice(event.tagStart, event.tagEnd);
    const plain = event.style === SCALAR_STYLE.PLAIN;
    return { kind: 'scalar', ...place, text, type: tag === '!!str' || (!plain && !tag) ? 'text' : scalarType(text) };
  }

  /** The values of a collection, and their extent. */
  private untilPop(): readonly [nodes: readonly YamlNode[], extent: Extent] {
    const nodes: YamlNode[] = [];
    const { values: valuesBefore, deepest: deepestBefore } = this;
    this.count(1);
    this.deepest = ++this.depth;
    while (this.events[this.at]?.type !== EVENT_ID.POP) nodes.push(this.node());
    const depth = this.deepest - --this.depth;
    this.deepest = Math.max(this.deepest, deepestBefore);
    this.at++;
    return [nodes, { values: this.values - valuesBefore, depth }];
  }

  private count(values: number): void {
    this.values += values;
    if (this.values > MAX_VALUES)
      throw new YamlError(
        `the file holds more than ${MAX_VALUES} values, aliases written out`,
        this.line,
        undefined,
        'size',
      );
  }

  private keep<N extends YamlNode>(event: { anchorStart: number; anchorEnd: number }, node: N, extent: Extent): N {
    if (event.anchorStart >= 0) this.anchors.set(this.text.slice(event.anchorStart, event.anchorEnd), { node, extent });
    return node;
  }

  /** @param offset  no less than before: events have the order of the text */
  private placeOf(offset: number): { readonly line: number; readonly column: number | undefined } {
    while (this.lineEnd >= 0 && this.lineEnd < offset) {
      this.line++;
      this.lineStart = this.lineEnd + 1;
      this.lineEnd = this.text.indexOf('\n', this.lineStart);
    }
    this.column = this.hasColumns ? offset - this.lineStart + 1 : undefined;
    return { line: this.line, column: this.column };
  }
}

function pairs(flat: readonly YamlNode[]): YamlEntry[] {
  const entries: YamlEntry[] = [];
  for (let at = 0; at + 1 < flat.length; at += 2) {
    const [key, value] = flat.slice(at, at + 2);
    if (key && value) entries.push({ key, value });
  }
  return entries;
}

/** Replaces `<<: *other` with the other mapping's entries, which the mapping's own entries override. */
function merged(entries: readonly YamlEntry[]): readonly YamlEntry[] {
  if (!entries.some(isMerge)) return entries;
  const own = entries.filter((entry) => !isMerge(entry));
  const known = new Set(own.flatMap(({ key }) => (key.kind === 'scalar' ? [key.text] : [])));
  const inherited: YamlEntry[] = [];
  for (const { key, value } of entries.filter(isMerge)) {
    for (const source of value.kind === 'list' ? value.items : [value]) {
      if (source.kind !== 'map')
        throw new YamlError('map merge requires map or sequence of maps as the value', key.line);
      for (const entry of source.entries) {
        if (entry.key.kind === 'scalar' && known.has(entry.key.text)) continue;
        if (entry.key.kind === 'scalar') known.add(entry.key.text);
        inherited.push(entry);
      }
    }
  }
  return [...inherited, ...own];
}

const isMerge = ({ key }: YamlEntry): boolean => key.kind === 'scalar' && key.text === '<<';

/** The type of a scalar in YAML 1.1. */
export type ScalarType = 'text' | 'integer' | 'float' | 'flag' | 'null';

const FLAGS = /^(y|Y|yes|Yes|YES|n|N|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF)$/;
const NULLS = /^(~|null|Null|NULL|)$/;
const INTEGER = /^[-+]?(0|[1-9][0-9]*|0[0-7]+|0[xX][0-9a-fA-F]+|0[oO][0-7]+|0[bB][01]+)$/;
const FLOAT = /^([-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$/;

/** The type of a plain scalar in YAML 1.1, as Go's yaml.v2 reads it (including underscores in numbers). */
function scalarType(text: string): ScalarType {
  if (NULLS.test(text)) return 'null';
  if (FLAGS.test(text)) return 'flag';
  if (!/^[-+.0-9]/.test(text)) return 'text';
  const digits = text.replaceAll('_', '');
  if (INTEGER.test(digits)) return fitsInt64(parseInteger(text)) ? 'integer' : 'float';
  const decimal = text.startsWith('.') ? text : digits; // no underscores before the first digit of a fraction
  const isTooLarge = /[eE]/.test(decimal) && !Number.isFinite(Number(decimal));
  return FLOAT.test(decimal) && !isTooLarge ? 'float' : 'text';
}

const fitsInt64 = (value: bigint): boolean => BigInt.asIntN(64, value) === value;

/** The value of an integer scalar: `1_000` is 1000, `010` is 8, `0x1F` is 31. */
export function parseInteger(text: string): bigint {
  const digits = text.replaceAll('_', '').replace(/^[-+]/, '');
  const magnitude = BigInt(/^0[0-7]+$/.test(digits) ? `0o${digits.slice(1)}` : digits);
  return text.startsWith('-') ? -magnitude : magnitude;
}

/** The value of a flag scalar: `yes`, `on`, `true` and `y` are true, in any case. */
export const parseFlag = (text: string): boolean => /^(y|yes|true|on)$/i.test(text);
