import ts from 'typescript';

const { SyntaxKind } = ts;

/** What steps may consist of. */
const allowed = new Set([
  ...[SyntaxKind.SourceFile, SyntaxKind.EndOfFileToken, SyntaxKind.Identifier, SyntaxKind.ExportDeclaration],
  ...[SyntaxKind.NamedExports, SyntaxKind.ExportSpecifier, SyntaxKind.Block, SyntaxKind.ParenthesizedExpression],
  ...[SyntaxKind.FunctionDeclaration, SyntaxKind.ArrowFunction, SyntaxKind.Parameter, SyntaxKind.ReturnStatement],
  ...[SyntaxKind.EqualsGreaterThanToken, SyntaxKind.VariableStatement, SyntaxKind.VariableDeclarationList],
  ...[SyntaxKind.VariableDeclaration, SyntaxKind.IfStatement, SyntaxKind.WhileStatement, SyntaxKind.ForStatement],
  ...[SyntaxKind.BreakStatement, SyntaxKind.ExpressionStatement, SyntaxKind.BinaryExpression],
  ...[SyntaxKind.PrefixUnaryExpression, SyntaxKind.PostfixUnaryExpression, SyntaxKind.ConditionalExpression],
  ...[SyntaxKind.QuestionToken, SyntaxKind.ColonToken, SyntaxKind.CallExpression, SyntaxKind.PropertyAccessExpression],
  ...[SyntaxKind.ElementAccessExpression, SyntaxKind.ArrayLiteralExpression, SyntaxKind.ObjectLiteralExpression],
  ...[SyntaxKind.PropertyAssignment, SyntaxKind.ShorthandPropertyAssignment, SyntaxKind.NumericLiteral],
  ...[SyntaxKind.StringLiteral, SyntaxKind.TrueKeyword, SyntaxKind.FalseKeyword, SyntaxKind.AsExpression],
]);

/** What scripts may have besides: texts, and functions of Lua that return several values. */
const allowedInScripts = new Set([
  ...[SyntaxKind.TypeOfExpression, SyntaxKind.SpreadElement, SyntaxKind.ArrayBindingPattern, SyntaxKind.BindingElement],
  ...[SyntaxKind.TemplateExpression, SyntaxKind.TemplateHead, SyntaxKind.TemplateSpan, SyntaxKind.TemplateMiddle],
  ...[SyntaxKind.TemplateTail, SyntaxKind.TypeParameter],
]);

/** What to write instead of what is often tried. */
const instead: Readonly<Record<number, string>> = {
  [SyntaxKind.SpreadElement]: 'fill a list in a loop',
  [SyntaxKind.SpreadAssignment]: 'name the members',
  [SyntaxKind.ForOfStatement]: 'count: for (let at = 0; at < end; at++)',
  [SyntaxKind.ContinueStatement]: 'put the rest of the loop in an if',
  [SyntaxKind.NewExpression]: 'use lists and records with fixed members',
  [SyntaxKind.ArrayBindingPattern]: 'take the members of a list by their places',
  [SyntaxKind.ObjectBindingPattern]: 'take the members one by one: const windowMs = limit.windowMs',
  [SyntaxKind.UndefinedKeyword]: 'use a number for what is absent',
  [SyntaxKind.TemplateExpression]: 'steps make no texts',
  [SyntaxKind.NoSubstitutionTemplateLiteral]: 'steps make no texts',
};

const methods = /^Math\.(abs|min|max|floor|ceil|sqrt)$|^Object\.values$|\.pop$/;

/** Reports what has another meaning in Lua, or none. @returns the messages */
export function checkSubset(file: ts.SourceFile, checker: ts.TypeChecker, isScript: boolean): readonly string[] {
  const found: string[] = [];
  const report = (node: ts.Node, message: string): void => {
    const line = file.text.slice(0, node.getStart(file)).split('\n').length - 1;
    found.push(`${message}: ${file.text.split('\n')[line]?.trim()}`);
  };
  const visit = (node: ts.Node): void => {
    if (ts.isTypeNode(node) || ts.isInterfaceDeclaration(node) || ts.isTypeAliasDeclaration(node)) return;
    if (ts.isToken(node) && ts.isBinaryExpression(node.parent)) return;
    if (ts.isStatement(node) && node.getText().startsWith('declare ')) return; // see declareOutside
    if (!allowed.has(node.kind) && !(isScript && allowedInScripts.has(node.kind))) {
      const advice = instead[node.kind];
      return report(node, `a step may not have a ${SyntaxKind[node.kind]}${advice ? `; ${advice}` : ''}`);
    }
    checkNode(node, checker, report);
    node.forEachChild(visit);
  };
  visit(file);
  return found;
}

type Report = (node: ts.Node, message: string) => void;

function checkNode(node: ts.Node, checker: ts.TypeChecker, report: Report): void {
  for (const condition of conditionsOf(node)) {
    if (!isTruth(checker.getTypeAtLocation(condition)))
      report(condition, "0 and '' are true in Lua; compare with a value");
  }
  if (ts.isBinaryExpression(node)) checkOperator(node, report);
  if (ts.isCallExpression(node)) checkCall(node, checker, report);
  if (ts.isForStatement(node) && !countingLoop(node))
    report(node, 'a loop counts with a constant step to a constant: for (let at = 0; at < end; at += 2)');
  if (ts.isArrowFunction(node) && isInside(node, (outer) => ts.isFunctionLike(outer)))
    report(node, 'a function in a function is created anew by each call; move it to the top');
  if (ts.isArrayLiteralExpression(node) && checker.typeToString(checker.getTypeAtLocation(node)).includes('undefined'))
    report(node, 'a list in Lua ends at undefined; use a number for what is absent');
}

function conditionsOf(node: ts.Node): readonly ts.Expression[] {
  if (ts.isIfStatement(node) || ts.isWhileStatement(node)) return [node.expression];
  if (ts.isConditionalExpression(node)) return [node.condition];
  if (ts.isPrefixUnaryExpression(node) && node.operator === SyntaxKind.ExclamationToken) return [node.operand];
  const operator = ts.isBinaryExpression(node) ? node.operatorToken.kind : undefined;
  const isLogical = operator === SyntaxKind.AmpersandAmpersandToken || operator === SyntaxKind.BarBarToken;
  return ts.isBinaryExpression(node) && isLogical ? [node.left] : [];
}

/** Whether values of a type are true in JavaScript if and only if they are in Lua. */
function isTruth(type: ts.Type): boolean {
  if (type.isUnion()) return type.types.every(isTruth);
  if (type.isStringLiteral()) return type.value !== '';
  return (type.flags & (ts.TypeFlags.BooleanLike | ts.TypeFlags.Object | ts.TypeFlags.Undefined)) !== 0;
}

function checkOperator(node: ts.BinaryExpression, report: Report): void {
  const { operatorToken } = node;
  const text = node.getSourceFile().text;
  const lineEnd = text.indexOf('\n', node.end);
  if (
    operatorToken.kind === SyntaxKind.PercentToken &&
    node.right.getText() !== '1' &&
    !text.slice(node.end, lineEnd).includes('// never negative')
  )
    report(
      node,
      'the remainder of a negative number differs in Lua; say "// never negative" in the line if it is none',
    );
}

function checkCall(node: ts.CallExpression, checker: ts.TypeChecker, report: Report): void {
  const callee = node.expression;
  if (!ts.isPropertyAccessExpression(callee) || methods.test(callee.getText())) return;
  const type = checker.getTypeAtLocation(callee.expression);
  const isBuiltIn =
    ts.isIdentifier(callee.expression) && /^(Math|Object|Number|JSON|Array|String)$/.test(callee.expression.text);
  if (
    isBuiltIn ||
    checker.isArrayLikeType(type) ||
    (type.flags & (ts.TypeFlags.StringLike | ts.TypeFlags.NumberLike)) !== 0
  )
    report(node, `${callee.getText()} needs a library in Lua; use a loop`);
}

const isInside = (node: ts.Node, test: (outer: ts.Node) => boolean): boolean =>
  node.parent !== undefined && (test(node.parent) || isInside(node.parent, test));

/** The parts of a loop that counts. */
export interface CountingLoop {
  readonly variable: ts.Identifier;
  readonly from: ts.Expression;
  readonly to: ts.Expression;
  /** Added to `to`: the last number. */
  readonly beyond: number;
  readonly by: string;
}

/** @returns undefined if the loop does not count with a constant step to a constant */
export function countingLoop({ initializer, condition, incrementor, statement }: ts.ForStatement) {
  if (!initializer || !ts.isVariableDeclarationList(initializer) || initializer.declarations.length !== 1) return;
  const { name, initializer: from } = initializer.declarations[0] ?? {};
  if (!name || !ts.isIdentifier(name) || !from || !condition || !ts.isBinaryExpression(condition)) return;
  const beyond = beyonds.get(condition.operatorToken.kind);
  const by = incrementor && incrementOf(incrementor);
  const isConstant = ts.isIdentifier(condition.right) || ts.isNumericLiteral(condition.right);
  if (beyond === undefined || by === undefined || condition.left.getText() !== name.text || !isConstant) return;
  const constants = [name.text, condition.right.getText(), by.replace('-', '')];
  if (constants.some((one) => isAssigned(one, statement))) return;
  return { variable: name, from, to: condition.right, beyond, by } satisfies CountingLoop;
}

const beyonds: ReadonlyMap<ts.SyntaxKind, number> = new Map([
  [SyntaxKind.LessThanToken, -1],
  [SyntaxKind.LessThanEqualsToken, 0],
  [SyntaxKind.GreaterThanToken, 1],
  [SyntaxKind.GreaterThanEqualsToken, 0],
]);

function incrementOf(node: ts.Expression): string | undefined {
  const [, sign, by] = /([+-])(?:\1|= (\w+))$/.exec(node.getText()) ?? [];
  return sign === undefined ? undefined : `${sign === '-' ? '-' : ''}${by ?? 1}`;
}

function isAssigned(name: string, within: ts.Node): boolean {
  const assigns = (node: ts.Node): boolean =>
    (ts.isBinaryExpression(node) &&
      node.left.getText() === name &&
      /^([-+*/]?)=$/.test(node.operatorToken.getText())) ||
    ((ts.isPostfixUnaryExpression(node) || ts.isPrefixUnaryExpression(node)) &&
      node.operand.getText() === name &&
      /\+\+|--/.test(node.getText())) ||
    (node.forEachChild(assigns) ?? false);
  return assigns(within);
}
