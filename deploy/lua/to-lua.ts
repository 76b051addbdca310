import ts from 'typescript';
import * as tstl from 'typescript-to-lua';
import type { Linked } from './link.ts';
import { checkSubset, countingLoop } from './subset.ts';

/** The Lua of a step. */
interface Compiled {
  readonly name: string;
  readonly fields: readonly string[];
  readonly lua: string;
}

const NAME = 'step.ts';
const checked: ts.CompilerOptions = {
  target: ts.ScriptTarget.ESNext,
  lib: ['lib.es5.d.ts'], // enough for the subset, and fast
  types: [],
  strict: true,
};
const options: tstl.CompilerOptions = {
  ...checked,
  luaTarget: tstl.LuaTarget.Lua51,
  luaLibImport: tstl.LuaLibImportKind.None,
  noHeader: true,
  noImplicitSelf: true,
  removeComments: true,
};

/** What the compiler writes in a shorter way: loops that count, and functions that return several values. */
const EXTENSIONS = `declare const $range: ((from: number, to: number, by?: number) => readonly number[]) & {
  readonly __tstlExtension: 'RangeFunction' };
type LuaMultiReturn<T extends unknown[]> = T & { readonly __tstlMultiReturn: unknown };
declare const $multi: (<T extends unknown[]>(...values: T) => LuaMultiReturn<T>) & {
  readonly __tstlExtension: 'MultiFunction' };
declare namespace string {
  function format(form: string, number: number): string;
  function rep(text: string, count: number): string;
  function match(text: string, pattern: string): string | undefined;
}
`;

/** The step and the refund of a kind of limits whose holds are the list of another kind. */
const holdsOf = (lua: string, name: string): Readonly<Record<string, Outside>> => ({
  [`step${name}`]: [
    lua,
    (step) =>
      `declare function step${name}(limit: readonly number[], holds: State, nowMs: number, hits: number, charge: Charge): ${step};\n`,
  ],
  [`refund${name}`]: [
    `${lua}_refund`,
    (step) =>
      `declare function refund${name}(limit: readonly number[], holds: State, nowMs: number, hits: number, at: number): ${step};\n`,
  ],
});

type Outside = readonly [lua: string, declare: (step: string) => string];

/** What a step calls that other parts of a script define: its name there, and its declaration. */
const outside: Readonly<Record<string, Outside>> = {
  rates: [
    'algorithms',
    (step) => `interface RateLimit { readonly windowMs: number }
interface LimitList extends ReadonlyArray<number> { readonly inner: RateLimit }
interface Rate {
  readonly step: (this: void, limit: RateLimit, state: State | undefined, nowMs: number, hits: number, charge: Charge) => ${step};
  readonly refund: (this: void, limit: RateLimit, state: State | undefined, nowMs: number, hits: number, at: number) => ${step};
}
declare const rates: readonly Rate[];
`,
  ],
  ...holdsOf('in_flight', 'Slots'),
  ...holdsOf('shared_slots', 'Shared'),
};

const outsideOf = (text: string): readonly string[] =>
  Object.keys(outside).filter((name) => new RegExp(`\\b${name}\\b`).test(text));

const declareOutside = (text: string, step: string): string =>
  outsideOf(text)
    .map((name) => outside[name]?.[1](step))
    .join('');

const STEP_VALUES = 'LuaMultiReturn<[boolean, State, number, State?]>';

/** Compiles a step to functions with these names, as the dispatcher calls them. @throws if it leaves the subset */
export function compile(name: string, linked: Linked): Compiled {
  check(name, linked.text + declareOutside(linked.text, 'Step').replaceAll('readonly number[]', 'object'), false);
  const body = translate(name, declareOutside(linked.text, STEP_VALUES), linked);
  return { name, fields: linked.fields, lua: wrap(name, linked, body) };
}

/** Compiles what runs steps, as declarations in Lua. @throws if it leaves the subset */
export function compileScript(name: string, linked: Linked): string {
  check(name, EXTENSIONS + linked.text, true);
  return translate(name, '', linked);
}

function translate(name: string, declared: string, linked: Linked): string {
  const source = EXTENSIONS + declared + shorten({ ...linked, text: inline(linked.text) });
  const { transpiledFiles, diagnostics } = tstl.transpileVirtualProject({ [NAME]: source }, options);
  const messages = diagnostics.map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n'));
  const body = transpiledFiles[0]?.lua ?? '';
  const library = /__TS__\w+/.exec(body)?.[0];
  if (library) messages.push(`${library} needs the compiler's library; use a loop`);
  if (messages.length > 0) throw new Error(`${name}: ${messages.join('\n')}`);
  return nameLibrary(tidy(body));
}

function check(name: string, text: string, isScript: boolean): void {
  const file = ts.createSourceFile(NAME, text, ts.ScriptTarget.ESNext, true);
  const host = ts.createCompilerHost(checked);
  const { getSourceFile } = host;
  host.getSourceFile = (path, ...rest) => (path === NAME ? file : getSourceFile(path, ...rest));
  const program = ts.createProgram([NAME], checked, host);
  const found = checkSubset(file, program.getTypeChecker(), isScript);
  if (found.length > 0) throw new Error(`${name}:\n${found.join('\n')}`);
}

/**
 * Writes constant numbers, also those in constant records, and the body of each function `const name = (…) => body`, where they are used: each call
 * runs the whole text, so names cost Redis time.
 */
function inline(text: string): string {
  const file = ts.createSourceFile(NAME, text, ts.ScriptTarget.ESNext, true);
  const bodies = new Map<string, ts.ArrowFunction>();
  const constants = new Map<string, string>();
  const edits: Edit[] = [];
  const removed = new Set<ts.Statement>();
  for (const statement of file.statements) {
    const [one] = ts.isVariableStatement(statement) ? statement.declarationList.declarations : [];
    const value = one?.initializer;
    if (!one || !value || (one.parent.flags & ts.NodeFlags.Const) === 0) continue;
    const members = listNumbersOf(value);
    if (ts.isArrowFunction(value)) bodies.set(one.name.getText(), value);
    else if (members) for (const [name, number] of members) constants.set(`${one.name.getText()}.${name}`, number);
    else if (/^-?[\d_.]+$/.test(value.getText())) constants.set(one.name.getText(), value.getText());
    else continue;
    removed.add(statement);
    edits.push([statement.getStart(), text.indexOf('\n', statement.end), '']);
  }
  const write = (node: ts.Node, values: ReadonlyMap<string, string>): string => {
    const body = ts.isCallExpression(node) ? bodies.get(node.expression.getText()) : undefined;
    if (ts.isCallExpression(node) && body) {
      const given = node.arguments.map((argument) => write(argument, values));
      const inner = body.parameters.map(({ name }, at) => [name.getText(), given[at] ?? ''] as const);
      const written = write(body.body, new Map([...constants, ...inner]));
      return ts.isCallExpression(body.body) ? written : `(${written})`; // (a call) is one value in Lua
    }
    const extreme = writeExtreme(node, (argument) => write(argument, values));
    if (extreme !== undefined) return extreme;
    const isName = (ts.isIdentifier(node) && !isMemberName(node)) || ts.isPropertyAccessExpression(node);
    const value = isName ? values.get(node.getText()) : undefined;
    if (value !== undefined) return /^[\w.]+$/.test(value) ? value : `(${value})`;
    const inner: Edit[] = [];
    node.forEachChild(
      (child) =>
        void inner.push([child.getStart() - node.getStart(), child.end - node.getStart(), write(child, values)]),
    );
    return edited(node.getText(), inner);
  };
  for (const statement of file.statements)
    if (ts.isFunctionDeclaration(statement) || (ts.isVariableStatement(statement) && !removed.has(statement)))
      edits.push([statement.getStart(), statement.end, write(statement, constants)]);
  return edited(text, edits);
}

/** The members of `{ one: 1, two: 2 } as const`; undefined if it is none. */
function listNumbersOf(value: ts.Expression): readonly (readonly [name: string, number: string])[] | undefined {
  if (!ts.isAsExpression(value) || !ts.isObjectLiteralExpression(value.expression)) return undefined;
  const members = value.expression.properties.map(
    (one) => [one.name?.getText() ?? '', ts.isPropertyAssignment(one) ? one.initializer.getText() : ''] as const,
  );
  return members.every(([, number]) => /^\d+$/.test(number)) ? members : undefined;
}

/** `Math.min(one, other)` as a comparison, which costs Redis less than a call; undefined if it is none of simple values. */
function writeExtreme(node: ts.Node, write: (node: ts.Node) => string): string | undefined {
  if (!ts.isCallExpression(node) || node.arguments.length !== 2) return undefined;
  const sign = { 'Math.min': '<', 'Math.max': '>' }[node.expression.getText()];
  const [one = '', other = ''] = node.arguments.map(write);
  const isSimple = [one, other].every((value) => /^-?[\w.]+(\[\d+\])?$/.test(value));
  return sign !== undefined && isSimple ? `(${one} ${sign} ${other} ? ${one} : ${other})` : undefined;
}

const isMemberName = ({ parent, ...node }: ts.Identifier): boolean =>
  (ts.isPropertyAccessExpression(parent) && parent.name.pos === node.pos) ||
  (ts.isPropertyAssignment(parent) && parent.name.pos === node.pos);

const edited = (text: string, edits: readonly Edit[]): string =>
  edits
    .toSorted(([one], [other]) => other - one)
    .reduce((whole, [from, to, with_]) => whole.slice(0, from) + with_ + whole.slice(to), text);

/** Replaces the text between two places. */
type Edit = readonly [from: number, to: number, text: string];

/** The same text, in which a limit is a list of its numbers, a step several values, and loops count as Lua's do. */
function shorten({ text, fields, records }: Linked): string {
  const file = ts.createSourceFile(NAME, text, ts.ScriptTarget.ESNext, true);
  const edits: Edit[] = [];
  const lists: Linked['records'] = fields.length > 0 ? { ...records, limit: fields } : records;
  const steps = new Set(Array.from(text.matchAll(/const (\w+): Step =/g), ([, name]) => name));
  const visit = (node: ts.Node): void => {
    if (ts.isForStatement(node)) edits.push(...countLikeLua(node));
    else if (ts.isReturnStatement(node) && node.expression && ts.isObjectLiteralExpression(node.expression))
      edits.push(...returnValues(node.expression));
    else if (ts.isVariableDeclaration(node)) edits.push(...declareValues(node));
    else if (ts.isCallExpression(node) && node.expression.getText() === 'String')
      edits.push([node.getStart(), node.arguments.pos, 'string.format("%.0f", ']);
    else if (ts.isCallExpression(node)) edits.push(...listValues(node, records));
    else if (ts.isPropertyAccessExpression(node) && steps.has(node.expression.getText()))
      edits.push([node.expression.end, node.name.getStart(), '_']);
    else if (ts.isPropertyAccessExpression(node)) edits.push(...readPlace(node, lists[node.expression.getText()]));
    else if (ts.isTypeReferenceNode(node)) edits.push(...renameType(node, fields));
    else if (ts.isObjectLiteralExpression(node)) edits.push(...writeList(node, records));
    node.forEachChild(visit);
  };
  visit(file);
  return edited(text, edits);
}

function countLikeLua(node: ts.ForStatement): readonly Edit[] {
  const loop = countingLoop(node);
  if (!loop) return [];
  const { variable, from, to, beyond, by } = loop;
  const more = beyond === 0 ? '' : ` ${beyond < 0 ? '-' : '+'} 1`;
  return [
    [node.initializer?.getStart() ?? 0, variable.getStart(), 'const '],
    [variable.end, from.getStart(), ' of $range('],
    [from.end, to.getStart(), ', '],
    [to.end, node.incrementor?.end ?? 0, `${more}, ${by})`],
  ];
}

/** `return { accepted, state, ttlMs }` as `return $multi(accepted, state, ttlMs)`. */
function returnValues({ properties, parent }: ts.ObjectLiteralExpression): readonly Edit[] {
  const names = properties.map(({ name }) => name?.getText()).join(' ');
  if (!names.startsWith('accepted')) return [];
  if (!/^accepted state ttlMs( report)?$/.test(names))
    throw new Error(`a step returns { accepted, state, ttlMs, report }, in this order, got ${parent.getText()}`);
  const object = parent as ts.ReturnStatement; // see shorten
  const { expression } = object;
  if (!expression) return [];
  return [
    [expression.getStart(), expression.getStart() + 1, '$multi('],
    ...properties.flatMap((property): readonly Edit[] =>
      ts.isPropertyAssignment(property) ? [[property.getStart(), property.initializer.getStart(), '']] : [],
    ),
    [properties.at(-1)?.end ?? 0, expression.end, ')'],
  ];
}

/** `const next: Step = …` as one constant for each value: `next_state` for `next.state`. */
function declareValues({ name, type, initializer }: ts.VariableDeclaration): readonly Edit[] {
  if (type?.getText() !== 'Step' || !initializer) return [];
  const names = ['accepted', 'state', 'ttlMs', 'report'].map((member) => `${name.getText()}_${member}`);
  return [[name.getStart(), type.end, `[${names.join(', ')}]`]];
}

/** `const inner: SomeNumbers = { windowMs: 1, children: [] }` as `[1]`. */
function writeList(
  { properties, parent }: ts.ObjectLiteralExpression,
  records: Readonly<Record<string, readonly string[]>>,
): readonly Edit[] {
  const fields = ts.isVariableDeclaration(parent) && parent.type ? records[parent.name.getText()] : undefined;
  if (!fields) return [];
  const names = properties.map((property) => property.name?.getText());
  if (names.join() !== fields.map((field) => field.replace('[]', '')).join())
    throw new Error(`${parent.getText()} must have ${fields.join(', ')}, in this order`);
  return [
    [properties.pos - 1, properties.pos, '['],
    ...properties.flatMap((property, at): readonly Edit[] => {
      if (!ts.isPropertyAssignment(property)) return [];
      if (fields[at]?.endsWith('[]')) return [[properties[at - 1]?.end ?? 0, property.end, '']];
      return [[property.getStart(), property.initializer.getStart(), '']];
    }),
    [parent.end - 1, parent.end, ']'],
  ];
}

/** `Object.values(inner)` as `inner`. */
function listValues(
  { expression, arguments: [record], end }: ts.CallExpression,
  records: Readonly<Record<string, readonly string[]>>,
): readonly Edit[] {
  if (expression.getText() !== 'Object.values' || !record || !records[record.getText()]) return [];
  return [
    [expression.getStart(), record.getStart(), ''],
    [record.end, end, ''],
  ];
}

/** `limit.windowMs` as `limit[1]`, `limit.children[at]` as `limit[3 + at]`. */
function readPlace(node: ts.PropertyAccessExpression, fields: readonly string[] | undefined): readonly Edit[] {
  const { expression, name, parent } = node;
  if (!fields || fields.includes(`${name.text}{}`)) return [];
  const at = fields.indexOf(name.text);
  if (at >= 0) return [[expression.end, node.end, `[${at}]`]];
  const first = fields.indexOf(`${name.text}[]`);
  if (first < 0 || !ts.isElementAccessExpression(parent)) throw new Error(`${parent.getText()} reads no number`);
  return [[expression.end, parent.argumentExpression.getStart(), `[${first} + `]];
}

/** The type of a limit is a list, and a function that returns a step returns several values. */
function renameType({ parent, typeName, end }: ts.TypeReferenceNode, fields: readonly string[]): readonly Edit[] {
  const from = typeName.getStart();
  const list = fields.some((field) => field.endsWith('{}')) ? 'LimitList' : 'readonly number[]';
  if (fields.length > 0 && ts.isParameter(parent) && /^_?limit$/.test(parent.name.getText()))
    return [[from, end, list]];
  if (typeName.getText().endsWith('Numbers')) return [[from, end, 'number[]']];
  const isFunction = ts.isFunctionDeclaration(parent) || ts.isMethodSignature(parent) || ts.isFunctionTypeNode(parent);
  const isReturned = isFunction && parent.type?.getStart() === from;
  const name = typeName.getText();
  if (!isReturned || !name.endsWith('Step')) return [];
  return [[from, end, name === 'Step' ? STEP_VALUES : `LuaMultiReturn<[boolean, ${name}['state'], number, State?]>`]];
}

/** Joins the constants of places, which count from 1 in Lua, and drops the module's frame. */
const tidy = (lua: string): string =>
  lua
    .replace(/^local ____exports = \{\}\n/, '')
    .replace(/^(____exports\.\w+ = \w+|return ____exports)\n/gm, '')
    .replace(/\+ (\d+) \+ 1(?=\])/g, (_, number: string) => `+ ${Number(number) + 1}`)
    .replace(/ - (\d+) \+ 1(?=\])/g, (_, number: string) => (number === '1' ? '' : ` - ${Number(number) - 1}`))
    .replace(/, 1 do$/gm, ' do');

/** Calls the functions of `math` as variables: Redis finds them faster than members. */
function nameLibrary(lua: string): string {
  const names = [...new Set(lua.match(/\bmath\.\w+(?=\()/g))];
  if (names.length === 0) return lua;
  const variables = names.map((name) => name.replace('.', '_'));
  return `local ${variables.join(', ')} = ${names.join(', ')}\n${lua.replace(/\bmath\.(?=\w+\()/g, 'math_')}`;
}

/** The functions under the names that the dispatcher calls. */
function wrap(name: string, { entries, fields, text }: Linked, body: string): string {
  const keepsOpen = entries.includes('open');
  const inner = fields.findIndex((field) => field.endsWith('{}'));
  const readInner = inner < 0 ? '' : `  limit.inner = limit.inner or { unpack(limit, ${inner + 1}) }\n`;
  const makeFunction = (step: string, last: string): string =>
    keepsOpen
      ? `function(limit, state, now_ms, hits, ${last})
${readInner}  return ${step}(limit, state and state.dropped and state or open(limit, state or {}, now_ms), now_ms, hits, ${last})
end`
      : step;
  const more = { startBefore: `${name}_start_before` };
  const exported = Object.entries(more).filter(([entry]) => entries.includes(entry));
  const names = [name, `${name}_refund`, ...exported.map(([, lua]) => lua)];
  const foreign = outsideOf(text).map((one) => `local ${one} = ${outside[one]?.[0]}\n`);
  return `local ${names.join(', ')}
do
${foreign.join('')}${body}
${name} = ${makeFunction('step', 'charge')}
${name}_refund = ${makeFunction('refund', 'charged_at_ms')}
${exported.map(([entry, lua]) => `${lua} = ${entry}\n`).join('')}end
`;
}
