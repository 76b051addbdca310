import { EVENT_ID, type Event, getScalarValue, parseEvents, SCALAR_STYLE, YAMLException } from 'js-yaml';

/** A YAML value that knows on which line of its file it stands (from 1). Aliases and merge keys are already resolved. */
export type YamlNode = YamlMap | YamlList | YamlScalar;

export interface YamlMap {
  readonly kind: 'map';
  readonly line: number;
  readonly entries: readonly YamlEntry[];
}
export interface YamlEntry {
  readonly key: YamlNode;
  readonly value: YamlNode;
}
export interface YamlList {
  readonly kind: 'list';
  readonly line: number;
  readonly items: readonly YamlNode[];
}
export interface YamlScalar {
  readonly kind: 'scalar';
  readonly line: number;
  /** As written: `yes`, `010` and `1_000` stay what they are. */
  readonly text: string;
  /** What YAML 1.1 takes it for. */
  readonly type: ScalarType;
}
export type ScalarType = 'text' | 'integer' | 'float' | 'flag' | 'null';

export interface YamlFile {
  /** The first document; undefined where the file has none. */
  readonly root: YamlNode | undefined;
  /** On which lines further documents begin: they are not read. */
  readonly moreDocumentsAt: readonly number[];
}

/** Values a file may hold once its aliases are written out: a few kilobytes of aliases can stand for billions. */
const MAX_VALUES = 1_000_000;

/** What is wrong with a text that is no YAML, and on which line. */
export class YamlError extends Error {
  override readonly name = 'YamlError';
  readonly line: number;
  constructor(message: string, line: number) {
    super(message);
    this.line = line;
  }
}

/**
 * Parses a YAML file, keeping line numbers and the text of scalars.
 *
 * @throws YamlError  syntax, an unknown alias, a merge of something that is no mapping, aliases that expand without bound
 */
export function parseYaml(text: string): YamlFile {
  const documents = composerOf(text).documents();
  return { root: documents[0]?.root, moreDocumentsAt: documents.slice(1).map(({ line }) => line) };
}

/** How often a file is mended and parsed again. */
const MAX_MENDINGS = 200;

/**
 * Parses the text. What stands in brackets or braces may be indented less than YAML wants, down to a closing bracket at the very
 * left, and be set off by tabs: Go's yaml.v2 takes that, and such files are common. It means the same with more indentation.
 */
function composerOf(written: string): Composer {
  let text = written;
  for (let mended = 0; ; mended++) {
    try {
      return new Composer(text, parseEvents(text, {}));
    } catch (error) {
      if (!(error instanceof YAMLException)) throw error;
      const better = mended < MAX_MENDINGS ? withMoreIndentation(text, error) : undefined;
      if (better === undefined) throw new YamlError(error.reason, (error.mark?.line ?? 0) + 1);
      text = better;
    }
  }
}

function withMoreIndentation(text: string, { reason, mark }: YAMLException): string | undefined {
  if (reason !== 'deficient indentation' || !mark) return undefined;
  const lineStart = text.lastIndexOf('\n', mark.position - 1) + 1;
  const line = text.slice(lineStart, mark.position);
  const separation = line.search(/(?<=[:,[\]{}"'-] *)\t(?!.*[:,[\]{}"'-] *\t)/); // the last tab between values
  if (separation >= 0) return `${text.slice(0, lineStart + separation)} ${text.slice(lineStart + separation + 1)}`;
  const rest = text.slice(lineStart);
  if (rest.startsWith(INDENTATION)) return undefined;
  const first = `${text.slice(0, lineStart)}${INDENTATION}`;
  // Most files have many such lines. They are mended together, unless a block scalar might hold one as its content.
  const isBlockScalar = /[|>][-+0-9]*[ \t]*(#.*)?$/m.test(text);
  return `${first}${isBlockScalar ? rest : rest.replace(/\n(?=[ \t]*[[\]{}])/g, `\n${INDENTATION}`)}`;
}

/** More than any nesting that the parser allows can need. */
const INDENTATION = ' '.repeat(200);

/** Walks the parser's flat list of events once and nests what it finds. */
class Composer {
  private readonly text: string;
  private readonly events: readonly Event[];
  private readonly lineStarts: readonly number[];
  private readonly anchors = new Map<string, YamlNode>();
  private readonly sizes = new Map<YamlNode, number>();
  private at = 0;
  private line = 1;

  constructor(text: string, events: readonly Event[]) {
    this.text = text;
    this.events = events;
    this.lineStarts = [0, ...Array.from(text.matchAll(/\n/g), ({ index }) => index + 1)];
  }

  documents(): { root: YamlNode | undefined; line: number }[] {
    const documents = [];
    while (this.events[this.at]?.type === EVENT_ID.DOCUMENT) {
      this.at++;
      this.anchors.clear();
      const root = this.events[this.at]?.type === EVENT_ID.POP ? undefined : this.node();
      this.at++; // the document's own end
      documents.push({ root, line: root?.line ?? this.line });
    }
    return documents;
  }

  private node(): YamlNode {
    const event = this.events[this.at++];
    switch (event?.type) {
      case EVENT_ID.SCALAR:
        return this.keep(event, this.scalar(event), 1);
      case EVENT_ID.SEQUENCE: {
        const line = this.lineOf(event.start);
        const items = this.untilPop();
        return this.keep(event, { kind: 'list', line, items }, 1 + this.sizeOf(items));
      }
      case EVENT_ID.MAPPING: {
        const line = this.lineOf(event.start);
        const flat = this.untilPop();
        return this.keep(event, { kind: 'map', line, entries: merged(pairs(flat)) }, 1 + this.sizeOf(flat));
      }
      case EVENT_ID.ALIAS: {
        const name = this.text.slice(event.anchorStart, event.anchorEnd);
        const node = this.anchors.get(name);
        this.line = this.lineOf(event.anchorStart);
        if (!node) throw new YamlError(`unknown anchor '${name}' referenced`, this.line);
        return node;
      }
      default:
        throw new YamlError('unexpected end of the file', this.line);
    }
  }

  private scalar(event: Extract<Event, { type: typeof EVENT_ID.SCALAR }>): YamlScalar {
    const text = getScalarValue(this.text, event);
    const line = event.valueStart < 0 ? this.line : this.lineOf(event.valueStart);
    const tag = event.tagStart < 0 ? undefined : this.text.slice(event.tagStart, event.tagEnd);
    const plain = event.style === SCALAR_STYLE.PLAIN;
    return { kind: 'scalar', line, text, type: tag === '!!str' || (!plain && !tag) ? 'text' : typeOf(text) };
  }

  private untilPop(): YamlNode[] {
    const nodes: YamlNode[] = [];
    while (this.events[this.at]?.type !== EVENT_ID.POP) nodes.push(this.node());
    this.at++;
    return nodes;
  }

  private keep<N extends YamlNode>(event: { anchorStart: number; anchorEnd: number }, node: N, size: number): N {
    if (size > MAX_VALUES) {
      throw new YamlError(`aliases expand to more than ${MAX_VALUES} values`, node.line);
    }
    this.sizes.set(node, size);
    if (event.anchorStart >= 0) this.anchors.set(this.text.slice(event.anchorStart, event.anchorEnd), node);
    return node;
  }

  private sizeOf(nodes: readonly YamlNode[]): number {
    return nodes.reduce((sum, node) => sum + (this.sizes.get(node) ?? 1), 0);
  }

  private lineOf(offset: number): number {
    let low = 0;
    let high = this.lineStarts.length - 1;
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if ((this.lineStarts[middle] ?? 0) <= offset) low = middle;
      else high = middle - 1;
    }
    this.line = low + 1;
    return this.line;
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

/** Replaces `<<: *other` by the other mapping's entries, which the mapping's own override. */
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

const FLAGS = /^(y|Y|yes|Yes|YES|n|N|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF)$/;
const NULLS = /^(~|null|Null|NULL|)$/;
const INTEGER = /^[-+]?(0|[1-9][0-9]*|0[0-7]+|0[xX][0-9a-fA-F]+|0[oO][0-7]+|0[bB][01]+)$/;
const FLOAT = /^([-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$/;

/** What a plain scalar is in YAML 1.1, as Go's yaml.v2 reads it (underscores in numbers included). */
function typeOf(text: string): ScalarType {
  if (NULLS.test(text)) return 'null';
  if (FLAGS.test(text)) return 'flag';
  if (!/^[-+.0-9]/.test(text)) return 'text';
  const digits = text.replaceAll('_', '');
  if (INTEGER.test(digits)) return fitsInt64(integerOf(text)) ? 'integer' : 'float';
  const decimal = text.startsWith('.') ? text : digits; // no underscores before the first digit of a fraction
  const isTooLarge = /[eE]/.test(decimal) && !Number.isFinite(Number(decimal));
  return FLOAT.test(decimal) && !isTooLarge ? 'float' : 'text';
}

const fitsInt64 = (value: bigint): boolean => BigInt.asIntN(64, value) === value;

/** The value of an integer scalar: `1_000` is 1000, `010` is 8, `0x1F` is 31. */
export function integerOf(text: string): bigint {
  const digits = text.replaceAll('_', '').replace(/^[-+]/, '');
  const magnitude = BigInt(/^0[0-7]+$/.test(digits) ? `0o${digits.slice(1)}` : digits);
  return text.startsWith('-') ? -magnitude : magnitude;
}

/** The value of a flag scalar: `yes`, `on`, `true` and `y` are true in any of their spellings. */
export const flagOf = (text: string): boolean => /^(y|yes|true|on)$/i.test(text);
