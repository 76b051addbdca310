import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import ts from 'typescript';

/** A step, and the declarations that it uses, as the text of one file. */
export interface Linked {
  readonly text: string;
  /** The numbers of a limit, in the order of their declaration; a list of further ones has the suffix `[]`. */
  readonly fields: readonly string[];
  /** Their type. */
  readonly type: string;
  /** The functions that the script calls, of those in `entries`. */
  readonly entries: readonly string[];
}

/** The functions of a row's file that run in Redis. `open` prepares a long state for several steps. */
const entries = ['open', 'step', 'refund'];

/** A declaration at the top of a file. */
interface Declared {
  readonly statement: ts.Statement;
  readonly file: ts.SourceFile;
}

/** @returns undefined if the file exports no `step` */
export function link(path: string): Linked | undefined {
  const declared = new Map<string, Declared>();
  const imported = readFiles(path);
  for (const file of imported) for (const statement of file.statements) declare(declared, file, statement);
  const own = imported.at(-1) as ts.SourceFile; // the file itself comes after its imports
  const exported = entries.filter((name) => {
    const found = declared.get(name);
    return found?.file === own && found.statement.getText(own).startsWith('export ');
  });
  if (!exported.includes('step')) return undefined;
  const used = new Set(exported.flatMap((name) => [...reach(name, declared)]));
  const statements = new Set([...declared].filter(([name]) => used.has(name)).map(([, { statement }]) => statement));
  const texts = imported.flatMap((file) =>
    file.statements.filter((statement) => statements.has(statement)).map((statement) => textOf(statement, file)),
  );
  const text = `${texts.join('\n')}\nexport { ${exported.join(', ')} };\n`;
  return { text, ...listFields(declared), entries: exported };
}

/** The text of a declaration, with a comment behind it. */
function textOf(statement: ts.Statement, { text }: ts.SourceFile): string {
  return text.slice(statement.getStart(), text.indexOf('\n', statement.end)).replace(/^export /, '');
}

/** A file and those that it imports, each after its own imports. */
function readFiles(path: string, known = new Map<string, ts.SourceFile>()): readonly ts.SourceFile[] {
  const file = ts.createSourceFile(path, readFileSync(path, 'utf8'), ts.ScriptTarget.ESNext, true);
  const before = file.statements.filter(ts.isImportDeclaration).flatMap(({ moduleSpecifier }) => {
    const from = (moduleSpecifier as ts.StringLiteral).text; // it always is one
    const at = join(dirname(path), from);
    if (!from.startsWith('.') || known.has(at) || at.endsWith('/lua/compiled.ts')) return [];
    known.set(at, file);
    return readFiles(at, known);
  });
  return [...before, file];
}

function declare(declared: Map<string, Declared>, file: ts.SourceFile, statement: ts.Statement): void {
  for (const name of namesIn(statement)) {
    // of two declarations with the same name, that of the step's own file, which comes last, is meant
    declared.set(name, { statement, file });
  }
}

function namesIn(statement: ts.Statement): readonly string[] {
  if (ts.isVariableStatement(statement))
    return statement.declarationList.declarations.map(({ name }) => name.getText());
  const isDeclaration =
    ts.isFunctionDeclaration(statement) || ts.isInterfaceDeclaration(statement) || ts.isTypeAliasDeclaration(statement);
  return isDeclaration && statement.name ? [statement.name.text] : [];
}

/** The names that a declaration uses, directly or not, and its own. */
function reach(name: string, declared: ReadonlyMap<string, Declared>, reached = new Set<string>()): Set<string> {
  const found = declared.get(name);
  if (!found || reached.has(name)) return reached;
  reached.add(name);
  const visit = (node: ts.Node): void => {
    if (ts.isIdentifier(node)) reach(node.text, declared, reached);
    node.forEachChild(visit);
  };
  visit(found.statement);
  return reached;
}

/** The members of the type of the first argument of `step`. */
function listFields(declared: ReadonlyMap<string, Declared>): Pick<Linked, 'fields' | 'type'> {
  const step = declared.get('step')?.statement;
  const limit = step && ts.isFunctionDeclaration(step) ? step.parameters[0] : undefined;
  const type = limit?.type?.getText() ?? '';
  const statement = declared.get(type)?.statement;
  if (limit?.name.getText() !== 'limit' || !statement || !ts.isInterfaceDeclaration(statement))
    throw new Error(`the first argument of step must be limit, an interface of numbers, got ${limit?.getText()}`);
  const fields = statement.members.map((member) => {
    const isList = ts.isPropertySignature(member) && member.type?.getText() === 'readonly number[]';
    return `${member.name?.getText()}${isList ? '[]' : ''}`;
  });
  return { fields, type };
}
