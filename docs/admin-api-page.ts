import type { JsonShape } from '../src/base/shape.ts';
import type { ApiOperation } from '../src/operate/admin/api.ts';
import { callerOperations } from '../src/operate/admin/openapi.ts';
import { adminOperations } from '../src/operate/admin/operations.ts';
import type { AdminOptions } from '../src/operate/admin/options.ts';
import { createStatistics } from '../src/operate/observe/stats.ts';
import { operatorParts } from '../src/parts/operators.ts';
import type { OpenOperatorPart, OperatorPart } from '../src/serve/control/part.ts';
import type { Settings } from '../src/settings/settings.ts';
import { wrapped } from './wrap.ts';

/** The operations without a service: they are only listed here, never called. */
function listedOperations(): readonly Omit<ApiOperation, 'answer'>[] {
  const sourced = { book: { packed: () => undefined, onChange: () => {} } };
  // operations read others only when called
  const overrides = { onChange: () => {} };
  const options = {
    access: { tokens: [] },
    sourced,
    overrides,
    statistics: createStatistics(1),
  } as unknown as AdminOptions;
  const settings = {
    ...{ advice: { maxBytes: 0 }, rules: { candidate: { path: '' } }, counters: { store: {} }, sink: { kind: 'none' } },
  } as unknown as Settings; // all that they read
  const context = {
    background: { add: () => ({}) },
    gathered: { onSecond() {} },
    ...{ kept: new Map(), opened: new Map() },
  } as unknown as Parameters<OpenOperatorPart>[2];
  const ofParts = Object.values(operatorParts).flatMap((open) => {
    const part = open(options, settings, context) as OperatorPart; // what is off waits for nothing
    void part.close?.();
    return part.operations ?? [];
  });
  return [...adminOperations(options, ofParts), ...callerOperations];
}

const needs = {
  open: 'any client',
  read: "a client that may read callers' values",
  operate: 'the role `operate`',
} as const;

/** The reference of the admin API, generated from its operations. */
export function adminApiPage(): string {
  const byPath = [...listedOperations()].sort((one, other) =>
    one.path < other.path ? -1 : one.path > other.path ? 1 : 0,
  );
  return wrapped(
    `${[
      '# Admin API reference',
      '',
      'JSON over HTTP on the debug port (`DEBUG_PORT`, 6070). [Admin API](admin.md) says what the operations do, and which',
      'command of `weir` calls which of them. This page is generated from them by `npm run docs`; a running service has the',
      'same as an OpenAPI document under `/api/v1/openapi.json`.',
      '',
      'Errors are problem documents ([RFC 9457](https://www.rfc-editor.org/rfc/rfc9457)) with status 4xx or 5xx; `errors` has',
      'everything that is wrong with a request, each with its place. What a client may do depends on its token:',
      '[access](admin.md#access).',
      ...byPath.flatMap(sectionOf),
    ].join('\n')}\n`,
  );
}

function sectionOf({
  method,
  path,
  summary,
  need,
  query,
  body,
  consumes,
  answers,
}: Omit<ApiOperation, 'answer'>): readonly string[] {
  return [
    '',
    `## ${method} ${path}`,
    '',
    `${upper(summary)}. For ${needs[need]}.`,
    '',
    `**Answers:** ${answers}`,
    ...tableOf('parameter', query),
    ...(body === undefined || body === 'any' ? [] : tableOf('field of the body', body)),
    ...(body === 'any' ? ['', `The body is ${consumes ? 'a rule file' : 'the JSON of a RateLimitRequest'}.`] : []),
  ];
}

const upper = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

function tableOf(what: string, { properties = {}, required = [] }: JsonShape<unknown>): readonly string[] {
  const rows = Object.entries(properties).map(
    ([name, schema]) =>
      `| \`${name}\` | ${typeOf(schema)} | ${required.includes(name) ? 'yes' : ''} | ${(schema.description ?? '').replaceAll('|', '\\|')} |`,
  );
  return rows.length === 0 ? [] : ['', `| ${what} | type | required | meaning |`, '| --- | --- | --- | --- |', ...rows];
}

function typeOf({
  type,
  enum: words,
  minimum,
  maximum,
  maxLength,
  maxItems,
  items,
  properties = {},
}: JsonShape<unknown>): string {
  if (words) return words.map((word) => `\`${word}\``).join(', ');
  if (type === 'string') return `text, at most ${maxLength} characters`;
  if (type === 'integer') return `${minimum} to ${maximum}`;
  if (items) return `list of ${typeOf(items)}, at most ${maxItems}`;
  return `object with ${Object.keys(properties)
    .map((name) => `\`${name}\``)
    .join(', ')}`;
}
