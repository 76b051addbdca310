import { parseYaml, YamlError, type YamlNode, type YamlScalar } from '../../engine/rules/read/yaml.ts';

/** A scalar of the rule file, and its text in the candidate. */
interface Edit {
  readonly old: YamlScalar;
  readonly text: string;
}

/** Keys by which nodes of a list of rules are the same, whatever their order. */
const IDENTITY = ['key', 'value', 'name'];

/**
 * The rule file with the candidate's values: with all its comments and its order if only single values differ, else the
 * candidate's text with the line breaks of the file.
 */
export function carryOver(file: string, written: string): string {
  const candidate = file.includes('\r\n') ? written.replaceAll(/\r?\n/g, '\r\n') : written;
  try {
    const [before, after] = [parseYaml(file).root, parseYaml(candidate).root];
    const edits = before && after ? findEdits(before, after) : undefined;
    return (edits && applyEdits(file, edits)) ?? candidate;
  } catch (error) {
    if (error instanceof YamlError) return candidate;
    throw error;
  }
}

/** @returns undefined  more than single values differ */
function findEdits(old: YamlNode, now: YamlNode): readonly Edit[] | undefined {
  if (old.kind === 'scalar')
    return now.kind === 'scalar' && old.type === now.type ? [{ old, text: now.text }] : undefined;
  const [parts, others] = [partsOf(old), partsOf(now)];
  if (old.kind !== now.kind || parts.size !== others.size) return undefined;
  const edits: Edit[] = [];
  for (const [name, part] of parts) {
    const other = others.get(name);
    const found = other && findEdits(part, other);
    if (!found) return undefined;
    edits.push(...found);
  }
  return edits;
}

/** The values of a map or list by their names; a name that occurs again has a number. */
function partsOf(node: YamlNode): ReadonlyMap<string, YamlNode> {
  const parts = new Map<string, YamlNode>();
  const add = (name: string, value: YamlNode) => {
    let free = name;
    for (let again = 2; parts.has(free); again++) free = `${name} ${again}`;
    parts.set(free, value);
  };
  if (node.kind === 'map') for (const { key, value } of node.entries) add(textOf(key), value);
  if (node.kind === 'list') for (const item of node.items) add(identityOf(item), item);
  return parts;
}

const textOf = (node: YamlNode): string => (node.kind === 'scalar' ? node.text : '');

function identityOf(node: YamlNode): string {
  if (node.kind !== 'map') return textOf(node);
  const named = node.entries.filter(({ key }) => IDENTITY.includes(textOf(key)));
  return JSON.stringify(named.map(({ key, value }) => [textOf(key), textOf(value)]).sort());
}

/** Texts that need no quotes. */
const isPlain = (text: string): boolean => /^\d+$|^[A-Za-z][\w.-]*$/.test(text);

/** @returns undefined  a value cannot be replaced in place */
function applyEdits(file: string, edits: readonly Edit[]): string | undefined {
  const lines = file.split('\n');
  const places = new Map(edits.map((edit) => [`${edit.old.line}:${edit.old.column}`, edit]));
  if (edits.some((edit) => places.get(`${edit.old.line}:${edit.old.column}`)?.text !== edit.text)) return undefined; // an alias
  const changed = [...places.values()].filter(({ old, text }) => old.text !== text);
  const fromTheEnd = changed.sort((one, other) => (other.old.column ?? 0) - (one.old.column ?? 0));
  for (const { old, text } of fromTheEnd) {
    const line = lines[old.line - 1] ?? '';
    const at = (old.column ?? 0) - 1;
    if (!isPlain(old.text) || !isPlain(text) || !line.startsWith(old.text, at)) return undefined;
    lines[old.line - 1] = line.slice(0, at) + text + line.slice(at + old.text.length);
  }
  return lines.join('\n');
}

const CONTEXT_LINES = 3;
const NO_NEWLINE = '\\ No newline at end of file';

/** The change of a file as a unified diff with one hunk; empty if nothing differs. */
export function unifiedDiff(path: string, before: string, after: string): string {
  if (before === after) return '';
  const [old, now] = [linesOf(before), linesOf(after)];
  let start = 0;
  while (start < Math.min(old.length, now.length) && old[start] === now[start]) start++;
  let same = 0;
  while (same < Math.min(old.length, now.length) - start && old.at(-1 - same) === now.at(-1 - same)) same++;
  const first = Math.max(start - CONTEXT_LINES, 0);
  const [oldEnd, nowEnd] = [old.length - same, now.length - same];
  const shownAfter = Math.min(same, CONTEXT_LINES);
  const range = (end: number) => `${end + shownAfter > first ? first + 1 : first},${end + shownAfter - first}`;
  const marked = (mark: string, lines: readonly string[]) => lines.map((line) => mark + line);
  const [gone, come] = [old.slice(start, oldEnd), now.slice(start, nowEnd)];
  const isAligned = old.length === now.length; // only values differ
  const changed = isAligned
    ? gone.flatMap((line, at) => (line === come[at] ? ` ${line}` : [`-${line}`, `+${come[at]}`]))
    : [...marked('-', gone), ...marked('+', come)];
  return [
    `--- a/${path}`,
    `+++ b/${path}`,
    `@@ -${range(oldEnd)} +${range(nowEnd)} @@`,
    ...marked(' ', old.slice(first, start)),
    ...changed,
    ...marked(' ', old.slice(oldEnd, oldEnd + shownAfter)),
    '',
  ].join('\n');
}

/** The lines of a text; the last one says if it has no line break. */
function linesOf(text: string): readonly string[] {
  if (text === '') return [];
  const lines = text.split('\n');
  const last = lines.pop() ?? '';
  return last === '' ? lines : [...lines, `${last}\n${NO_NEWLINE}`];
}
