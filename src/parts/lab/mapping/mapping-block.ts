import { nearest } from '../../../base/nearest.ts';
import { type Place, type Problems, pathOfKey, shown } from '../../../engine/rules/read/problem.ts';
import { parseFlag, parseYaml, YamlError, type YamlNode } from '../../../engine/rules/read/yaml.ts';

/** A regular expression. */
interface Pattern {
  /** The text that it matches, and its groups; undefined without a match. */
  exec(text: string): readonly (string | undefined)[] | undefined;
}

/** How a pattern matches: in any case, and the whole text instead of a part. */
interface PatternOptions {
  readonly ignoresCase?: boolean;
  readonly isWhole?: boolean;
}

/** Compiles a regular expression. @throws Error  it is invalid */
export type Compile = (source: string, options: PatternOptions) => Pattern;

/** Compiles JavaScript's regular expressions, whose time may grow exponentially with a text. */
export const compileRegExp: Compile = (source, { ignoresCase = false, isWhole = false }) => {
  const flags = ignoresCase ? 'i' : '';
  const regex = new RegExp(source, flags);
  const compiled = isWhole ? new RegExp(`^(?:${source})$`, `${flags}s`) : regex;
  return { exec: (text) => compiled.exec(text) ?? undefined };
};

/** What the blocks of a file share. */
interface BlockContext {
  readonly problems: Problems;
  readonly compile: Compile;
}

/** Parses a file. Undefined if it is no mapping: the problems say why then. */
export function parseBlock(file: string, text: string, context: BlockContext): MappingBlock | undefined {
  const { problems } = context;
  try {
    const { root } = parseYaml(text);
    const place = { file, line: root?.line ?? 1, path: '' };
    return root ? new MappingBlock(root, place, context) : problems.error(place, 'expected a mapping, got nothing');
  } catch (error) {
    if (!(error instanceof YamlError)) throw error;
    return problems.error({ file, line: error.line, column: error.column, path: '' }, `no YAML: ${error.message}`);
  }
}

/** A block of a mapping file, read key by key. Errors are added to the problems; `done` reports unread keys. */
export class MappingBlock {
  readonly place: Place;
  readonly #values = new Map<string, { readonly node: YamlNode; readonly place: Place }>();
  /** Keys that were asked for. */
  readonly #known = new Set<string>();
  readonly #context: BlockContext;

  constructor(node: YamlNode, place: Place, context: BlockContext) {
    this.place = { ...place, line: node.line, column: node.column };
    this.#context = context;
    if (node.kind !== 'map' && !isNull(node)) this.error(`expected a mapping, got ${describe(node)}`);
    for (const { key, value } of node.kind === 'map' ? node.entries : []) {
      const name = key.kind === 'scalar' ? key.text : describe(key);
      const at = { ...place, line: key.line, column: key.column, path: pathOfKey(place.path, shown(name)) };
      if (this.#values.has(name)) context.problems.error(at, `'${shown(name)}' is set twice`);
      this.#values.set(name, { node: value, place: at });
    }
  }

  get keys(): readonly string[] {
    return [...this.#values.keys()];
  }

  has(key: string): boolean {
    return this.#values.has(key);
  }

  error(message: string, key?: string): undefined {
    this.#context.problems.error((key === undefined ? undefined : this.#values.get(key)?.place) ?? this.place, message);
  }

  text(key: string): string | undefined {
    const found = this.#take(key);
    if (!found) return undefined;
    if (found.node.kind === 'scalar' && !isNull(found.node)) return found.node.text;
    return this.error(`expected a text, got ${describe(found.node)}`, key);
  }

  /** A required text that is not empty. */
  required(key: string): string | undefined {
    const text = this.text(key);
    if (text !== undefined && text !== '') return text;
    if (text === '' || !this.has(key)) this.error(`expected ${key}, a non-empty text, got none`, key);
    return undefined;
  }

  flag(key: string, fallback: boolean): boolean {
    const found = this.#take(key);
    if (!found) return fallback;
    if (found.node.kind === 'scalar' && found.node.type === 'flag') return parseFlag(found.node.text);
    this.error(`expected true or false, got ${describe(found.node)}`, key);
    return fallback;
  }

  integer(key: string, [least, most]: readonly [least: number, most: number]): number | undefined {
    const found = this.#take(key);
    if (!found) return undefined;
    const { node } = found;
    const value = node.kind === 'scalar' && /^[+-]?\d+$/.test(node.text) ? Number(node.text) : Number.NaN; // JSON of protobuf quotes 64 bits
    if (value >= least && value <= most) return value;
    return this.error(`expected a whole number from ${least} to ${most}, got ${describe(node)}`, key);
  }

  pattern(key: string, options: PatternOptions = {}): Pattern | undefined {
    const text = this.required(key);
    if (text === undefined) return undefined;
    try {
      return this.#context.compile(text, options);
    } catch (error) {
      return this.error(`expected a regular expression, got '${shown(text)}': ${errorMessage(error)}`, key);
    }
  }

  block(key: string): MappingBlock | undefined {
    const found = this.#take(key);
    return found && new MappingBlock(found.node, found.place, this.#context);
  }

  /** The items of a list that is not empty. */
  blocks(key: string): readonly MappingBlock[] {
    const found = this.#take(key);
    if (found?.node.kind !== 'list' || found.node.items.length === 0) {
      this.error(`expected ${key}, a list that is not empty, got ${found ? describe(found.node) : 'none'}`, key);
      return [];
    }
    const { place } = found;
    return found.node.items.map(
      (item, at) => new MappingBlock(item, { ...place, path: `${place.path}[${at}]` }, this.#context),
    );
  }

  /** A text, or a list of texts. */
  texts(key: string): readonly string[] {
    const found = this.#take(key);
    const nodes = found?.node.kind === 'list' ? found.node.items : found ? [found.node] : [];
    return nodes.flatMap((node) => {
      if (node.kind === 'scalar') return [node.text];
      this.error(`expected a text, got ${describe(node)}`, key);
      return [];
    });
  }

  /** Reports keys that were not read. */
  done(): void {
    for (const key of this.#values.keys()) {
      if (this.#known.has(key)) continue;
      const meant = nearest(key, [...this.#known]);
      const hint = meant === undefined ? `expected one of ${[...this.#known].join(', ')}` : `did you mean '${meant}'?`;
      this.error(`unknown key '${shown(key)}'; ${hint}`, key);
    }
  }

  #take(key: string) {
    this.#known.add(key);
    return this.#values.get(key);
  }
}

const isNull = (node: YamlNode): boolean => node.kind === 'scalar' && node.type === 'null';

function describe(node: YamlNode): string {
  if (node.kind !== 'scalar') return node.kind === 'list' ? 'a list' : 'a mapping';
  return isNull(node) ? 'nothing' : `'${shown(node.text)}'`;
}

const errorMessage = (error: unknown): string => (error instanceof Error ? error.message : String(error));
