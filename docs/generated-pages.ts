import { readFileSync } from 'node:fs';
import { dashboards } from '../deploy/grafana/dashboards.ts';
import { type Field, format } from '../src/engine/rules/read/format.ts';
import { settingsTable } from '../src/settings/table.ts';
import { adminApiPage } from './admin-api-page.ts';
import { commandLinePage } from './command-line-page.ts';
import { withFigures } from './figures.ts';
import { ruleKeysPage } from './rule-keys-page.ts';
import { withScenarios } from './scenarios-page.ts';
import { statisticsPage } from './statistics-page.ts';
import { wrapped } from './wrap.ts';

/** The files generated from the code besides plots, by path. `npm run docs` writes them; a test compares them. */
export const generatedPages: ReadonlyMap<string, string> = new Map([
  ['README.md', withFigures(readFileSync(new URL('../README.md', import.meta.url), 'utf8'))],
  ['docs/settings.md', settingsPage()],
  ['docs/rule-keys.md', ruleKeysPage()],
  ['docs/command-line.md', commandLinePage()],
  ['docs/admin-api.md', adminApiPage()],
  ['docs/replay.md', withScenarios(readFileSync(new URL('replay.md', import.meta.url), 'utf8'))],
  ['docs/statistics.md', statisticsPage()],
  ['config/schema/rules.schema.json', rulesSchema()],
  ...dashboards,
]);

function settingsPage(): string {
  const groups = Object.entries(settingsTable).flatMap(([title, rows]) => [
    '',
    `## ${title}`,
    '',
    '| variable | default | meaning |',
    '| --- | --- | --- |',
    ...Object.entries(rows).map(([name, { fallback, meaning, formerName }]) => {
      const shown = fallback === undefined ? 'not set' : fallback === '' ? 'empty' : `\`${fallback}\``;
      const former = formerName === undefined ? '' : `. Former name, deprecated: \`${formerName}\``;
      const text = meaning.replaceAll('|', '\\|').replace(/<(?=\w)/g, '&lt;');
      return `| \`${name}\` | ${shown} | ${text}${former} |`;
    }),
  ]);
  return wrapped(
    `${[
      '# Settings',
      '',
      'Environment variables, read once at the start. This page is generated from `src/settings/settings.ts` by `npm run docs`.',
      '',
      'Flags are `true` or `false` (also `1`, `t`, `0`, `f`); durations are written as in Go: `150ms`, `10s`, `1h30m`. A variable',
      'that is set but empty counts as set. Invalid settings stop start-up; all of them are listed.',
      ...groups,
    ].join('\n')}\n`,
  );
}

/**
 * The format of rule files as a JSON Schema for editors: draft 7, which all of them support. It accepts only one of
 * YAML 1.1's spellings: `true`, not `yes`; an absent key, not an empty one.
 */
function rulesSchema(): string {
  const schema = {
    $schema: 'http://json-schema.org/draft-07/schema#',
    $comment: 'Generated from src/engine/rules/read/format.ts by `npm run docs`.',
    title: 'A rule file of Weir',
    $ref: '#/definitions/file',
    definitions: Object.fromEntries(
      Object.entries(format).map(([block, fields]) => [block, blockSchema(block, fields)]),
    ),
  };
  return `${withShortLists(JSON.stringify(schema, null, 2))}\n`;
}

/** Formats like `npm run format`: puts a list of words on one line if it fits. */
function withShortLists(json: string): string {
  return json.replace(/^(.*)\[\n([^[\]{}]*)\n *\](,?)$/gm, (long, before, words, after) => {
    const short = `${before}[${words.trim().replace(/\n */g, ' ')}]${after}`;
    return short.length <= 120 ? short : long;
  });
}

function blockSchema(block: string, fields: Readonly<Record<string, Field>>): object {
  const entries = Object.entries(fields);
  const properties = entries.map(([key, field]) => [key, { description: field.meaning, ...valueSchema(field) }]);
  const required = entries.filter(([, field]) => field.required).map(([key]) => key);
  const dependencies = entries.flatMap(([key, field]) => {
    // a schedule's entry may inherit the algorithm of its limit
    const others = block === 'scheduled' && field.goesWith ? undefined : neighbourSchema(field);
    return others ? [[key, others]] : [];
  });
  return {
    type: 'object',
    properties: Object.fromEntries(properties),
    additionalProperties: false,
    ...(required.length > 0 && { required }),
    ...(dependencies.length > 0 && { dependencies: Object.fromEntries(dependencies) }),
  };
}

function valueSchema(field: Field): object {
  switch (field.type) {
    case 'text':
      return field.orBlock === undefined
        ? textSchema(field)
        : { anyOf: [textSchema(field), { $ref: `#/definitions/${field.orBlock}` }] };
    case 'texts': {
      const item = { type: 'string', ...(field.pattern !== undefined && { pattern: field.pattern }) };
      return { anyOf: [item, { type: 'array', items: item, minItems: 1 }] };
    }
    case 'keys': {
      const keys = { type: 'array', items: { type: 'string', minLength: 1 }, minItems: 1 };
      const lists = [{ type: 'string', minLength: 1 }, keys, { type: 'array', items: keys, minItems: 1 }];
      return { anyOf: field.orBlock === undefined ? lists : [...lists, { $ref: `#/definitions/${field.orBlock}` }] };
    }
    case 'count':
      return { type: 'integer', minimum: field.minimum ?? 0, maximum: field.maximum ?? 4_294_967_295 };
    case 'flag':
      return { type: 'boolean' };
    case 'struct':
      return { type: 'object' };
    case 'block':
      return { $ref: `#/definitions/${field.of}` };
    case 'list': {
      const { minimum: minItems, maximum: maxItems } = field;
      return { type: 'array', items: { $ref: `#/definitions/${field.of}` }, minItems, maxItems };
    }
  }
}

/** Free text may be written like a number or boolean: `value: 404` is the text 404. */
function textSchema({ choices, anyCase, pattern, required }: Extract<Field, { type: 'text' }>): object {
  if (pattern) return { type: new RegExp(pattern).test('1') ? ['string', 'integer'] : 'string', pattern };
  if (!choices) return { type: ['string', 'integer', 'boolean'], minLength: required ? 1 : undefined };
  if (!anyCase) return { enum: choices };
  const letters = choices.map((word) => word.replace(/[a-z]/g, (letter) => `[${letter}${letter.toUpperCase()}]`));
  return { anyOf: [{ enum: choices }, { type: 'string', pattern: `^(${letters.join('|')})$` }] };
}

/** Constraints of a key on the other keys of its block; undefined: none. */
function neighbourSchema({ insteadOf, goesWith }: Field): object | undefined {
  if (insteadOf) return { properties: Object.fromEntries(insteadOf.map((key) => [key, false])) };
  if (!goesWith) return undefined;
  const [byDefault] = format.rate_limit.algorithm.choices;
  const properties = { algorithm: { enum: goesWith } };
  if (byDefault && goesWith.includes(byDefault)) return { properties };
  // with share, the default is token_bucket
  const isImplied = goesWith.includes('token_bucket');
  return isImplied
    ? { anyOf: [{ required: ['algorithm'] }, { required: ['share'] }], properties }
    : { required: ['algorithm'], properties };
}
