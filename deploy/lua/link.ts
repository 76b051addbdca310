import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import ts from 'typescript';

/** A step, and the declarations that it uses, as the text of one file. */
export interface Linked {
  readonly text: string;
  /**
   * The numbers of a limit, in the order of their declaration; a list of further ones has the suffix `[]`, and the limit
   * of another algorithm `{}`.
   */
  readonly fields: readonly string[];
  /** The same for other variables whose type is a record of numbers, by their names. */
  readonly records: Readonly<Record<string, readonly string[]>>;
  /** The functions that the script calls, of those in `entries`. */
  readonly entries: readonly string[];
}

/**
 * The functions of a step's file that run in Redis. `open` prepares a long state for several steps.
 */
const entries = ['open', 'step', 'refund', 'startBefore'];

/** What other parts of a script, or Lua, define: see `outside` and `EXTENSIONS` in to-lua.ts. */
const foreign = new Set([
  ...['rates', 'Rate', 'RateLimit', 'string', 'LuaMultiReturn'],
  ...['stepSlots', 'refundSlots', 'stepShared', 'refundShared'],
]);

/** A source file, with what it declares at its top and imports, by name. */
interface Source {
  readonly file: ts.SourceFile;
  readonly declared: ReadonlyMap<string, ts.Statement>;
  readonly imported: ReadonlyMap<string, Source>;
  /** Its functions and variables are only declared, since the script around this one has them. */
  isOuter: boolean;
}

/** @returns undefined if the file exports no `step` */
export function link(path: string): Linked | undefined {
  const sources = new Map<string, Source>();
  const own = readSource(path, sources);
  const exported = entries.filter((name) => own.declared.get(name)?.getText().startsWith('export '));
  if (!exported.includes('step')) return undefined;
  const { text, statements } = joinStatements(path, own, sources, exported);
  return { text, fields: listFields(own), records: listRecords(statements), entries: exported };
}

/**
 * The function `entry` of a script, with what it uses.
 *
 * @param outer  files whose functions and variables the script around this one has
 */
export function linkScript(path: string, entry: string, outer: readonly string[] = []): Linked {
  const sources = new Map<string, Source>();
  const own = readSource(path, sources);
  for (const file of outer) {
    const source = sources.get(file);
    if (source) source.isOuter = true;
  }
  return { text: joinStatements(path, own, sources, [entry]).text, fields: [], records: {}, entries: [entry] };
}

/** The declarations that the exported ones use, each file after those that it imports. */
function joinStatements(path: string, own: Source, sources: ReadonlyMap<string, Source>, exported: readonly string[]) {
  const used = new Map<ts.Statement, string>();
  for (const name of exported) reach(name, own, used);
  const statements = [...sources.values()].flatMap(({ file }) => file.statements.filter((one) => used.has(one)));
  const names = statements.flatMap(namesIn);
  const twice = names.find((name, at) => names.indexOf(name) !== at);
  if (twice !== undefined) throw new Error(`${path}: two declarations have the name ${twice}; rename one`);
  const text = `${statements.map((one) => used.get(one)).join('\n')}\nexport { ${exported.join(', ')} };\n`;
  return { text, statements };
}

/** The text of a declaration, with a comment behind it. */
function textOf(statement: ts.Statement): string {
  const { text } = statement.getSourceFile();
  return text.slice(statement.getStart(), text.indexOf('\n', statement.end)).replace(/^export /, '');
}

function readSource(path: string, sources: Map<string, Source>): Source {
  const known = sources.get(path);
  if (known) return known;
  const file = ts.createSourceFile(path, readFileSync(path, 'utf8'), ts.ScriptTarget.ESNext, true);
  const imported = new Map<string, Source>();
  for (const { moduleSpecifier, importClause } of file.statements.filter(ts.isImportDeclaration)) {
    const from = (moduleSpecifier as ts.StringLiteral).text; // it always is one
    const names = importClause?.namedBindings;
    if (!from.startsWith('.') || from.endsWith('/compiled.ts') || !names || !ts.isNamedImports(names)) continue;
    const source = readSource(join(dirname(path), from), sources);
    for (const { name, propertyName } of names.elements) if (!propertyName) imported.set(name.text, source);
  }
  const declared = new Map(file.statements.flatMap((one) => namesIn(one).map((name) => [name, one] as const)));
  const source = { file, declared, imported, isOuter: false };
  sources.set(path, source);
  return source;
}

function namesIn(statement: ts.Statement): readonly string[] {
  if (ts.isVariableStatement(statement))
    return statement.declarationList.declarations.map(({ name }) => name.getText());
  const isDeclaration =
    ts.isFunctionDeclaration(statement) || ts.isInterfaceDeclaration(statement) || ts.isTypeAliasDeclaration(statement);
  return isDeclaration && statement.name ? [statement.name.text] : [];
}

/** Adds a declaration, and those that it uses, directly or not. */
function reach(name: string, source: Source, used: Map<ts.Statement, string>): void {
  const { declared, imported } = source;
  const elsewhere = imported.get(name);
  if (foreign.has(name)) return;
  if (elsewhere) return reach(name, elsewhere, used);
  const statement = declared.get(name);
  if (!statement || used.has(statement)) return;
  const place = findPlace(statement, source);
  const outer = source.isOuter && place === undefined ? declareOuter(statement) : undefined;
  used.set(statement, outer ?? (place === undefined ? textOf(statement) : `const ${name} = ${place};`));
  if (place !== undefined) return;
  const visit = (node: ts.Node): void => {
    if (ts.isIdentifier(node) && isUse(node)) reach(node.text, source, used);
    node.forEachChild((child) => {
      if (outer === undefined || !isValue(child)) visit(child);
    });
  };
  visit(statement);
}

/** The body of a function, or the value of a variable. */
const isValue = ({ parent, pos }: ts.Node): boolean =>
  (ts.isFunctionDeclaration(parent) && parent.body?.pos === pos) ||
  (ts.isVariableDeclaration(parent) && parent.initializer?.pos === pos);

/** The declaration without its body or value; undefined if it has none, or is a constant number. */
function declareOuter(statement: ts.Statement): string | undefined {
  if (ts.isFunctionDeclaration(statement) && statement.body)
    return `declare ${statement.getText().slice(0, statement.body.pos - statement.getStart())};`.replace('export ', '');
  const [one] = ts.isVariableStatement(statement) ? statement.declarationList.declarations : [];
  if (!one?.initializer || /^-?[\d_.]+$/.test(one.initializer.getText())) return undefined;
  if (!one.type) throw new Error(`${one.name.getText()} needs a type, since another script uses it`);
  return `declare const ${one.name.getText()}: ${one.type.getText()};`;
}

/** The value of `const NAME = list.indexOf('text')`. */
function findPlace(statement: ts.Statement, source: Source): number | undefined {
  const [, list, text] = /^(?:export )?const \w+ = (\w+)\.indexOf\('(\w+)'\);/.exec(statement.getText()) ?? [];
  if (list === undefined || text === undefined) return undefined;
  const place = listTexts(list, source).indexOf(text);
  if (place < 0) throw new Error(`${list} must have '${text}'`);
  return place;
}

/** The texts of a list, or of the names of a record by `Object.keys`. */
function listTexts(name: string, { declared, imported }: Source): readonly string[] {
  const elsewhere = imported.get(name);
  if (elsewhere) return listTexts(name, elsewhere);
  const statement = declared.get(name);
  const [one] = statement && ts.isVariableStatement(statement) ? statement.declarationList.declarations : [];
  let value = one?.initializer;
  while (value && (ts.isAsExpression(value) || ts.isSatisfiesExpression(value))) value = value.expression;
  if (value && ts.isArrayLiteralExpression(value))
    return value.elements.filter(ts.isStringLiteral).map(({ text }) => text);
  if (value && ts.isObjectLiteralExpression(value))
    return value.properties.map((member) => member.name?.getText() ?? '');
  const [record] = value && ts.isCallExpression(value) ? value.arguments : [];
  return record ? listTexts(record.getText(), { declared, imported } as Source) : [];
}

/** Whether an identifier is no name of a member or of a new variable. */
function isUse(node: ts.Identifier): boolean {
  const { parent } = node;
  const names =
    ts.isPropertyAccessExpression(parent) ||
    ts.isPropertyAssignment(parent) ||
    ts.isPropertySignature(parent) ||
    ts.isMethodSignature(parent) ||
    ts.isVariableDeclaration(parent) ||
    ts.isParameter(parent);
  return !names || parent.name !== node;
}

/** The members of the type of the first argument of `step`. */
function listFields({ declared, imported }: Source): readonly string[] {
  const step = declared.get('step');
  const limit = step && ts.isFunctionDeclaration(step) ? step.parameters[0] : undefined;
  const type = limit?.type?.getText() ?? '';
  const statement = declared.get(type) ?? imported.get(type)?.declared.get(type);
  if (limit?.name.getText() !== 'limit' || !statement || !ts.isInterfaceDeclaration(statement))
    throw new Error(`the first argument of step must be limit, an interface of numbers, got ${limit?.getText()}`);
  return fieldsOf(statement);
}

const suffixes: Readonly<Record<string, string>> = { number: '', 'readonly number[]': '[]', 'number[]': '[]' };

const fieldsOf = ({ members }: ts.InterfaceDeclaration): readonly string[] =>
  members.map((member) => {
    const type = ts.isPropertySignature(member) ? member.type?.getText() : undefined;
    return `${member.name?.getText()}${suffixes[type ?? ''] ?? '{}'}`;
  });

/** The fields of variables whose types have names that end with `Numbers`, but those of limits. */
function listRecords(statements: readonly ts.Statement[]): Readonly<Record<string, readonly string[]>> {
  const types = new Map(
    statements.filter(ts.isInterfaceDeclaration).map((one) => [one.name.text, fieldsOf(one)] as const),
  );
  const records: Record<string, readonly string[]> = {};
  const visit = (node: ts.Node): void => {
    const type = ts.isParameter(node) || ts.isVariableDeclaration(node) ? node.type?.getText() : undefined;
    const fields = type?.endsWith('Numbers') ? types.get(type) : undefined;
    const name = ts.isParameter(node) || ts.isVariableDeclaration(node) ? node.name.getText() : '';
    if (fields && !/^_?limit$/.test(name)) records[name] = fields;
    node.forEachChild(visit);
  };
  for (const statement of statements) visit(statement);
  return records;
}
