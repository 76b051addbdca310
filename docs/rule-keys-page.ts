import { type Field, format, referenceKeys, type Shape } from '../src/engine/rules/read/format.ts';

const titles: Readonly<Record<Shape, readonly [title: string, about: string]>> = {
  file: ['A file', 'The keys at the top of a rule file.'],
  node: ['A node', 'An element of `descriptors`.'],
  rate_limit: ['A limit', 'The value of `rate_limit`, or an element of `rate_limits`.'],
  adapt: ['An adaptive limit', 'The value of `adapt` ([Requests in flight](in-flight.md#a-limit-that-adapts)).'],
  reserve: ['A reservation', 'The value of `reserve` ([LLM tokens](llm-tokens.md)).'],
  penalty: ['A penalty', 'The value of `penalty` ([Penalties](penalties.md)).'],
  share: ['A shared limit', 'The value of `share` in `rate_limit` ([Fair shares](fair-shares.md)).'],
  child: ['A child of a shared limit', 'The value of `share` in a node ([Fair shares](fair-shares.md)).'],
  replaces: ['A replaced limit', 'An element of `replaces`.'],
  require: ['Required keys', 'The value of `require` ([Requests without a key](rules.md#requests-without-a-key)).'],
  sites: ['Shared by sites', 'The value of `sites` ([Several sites](sites.md)).'],
  scheduled: ['A scheduled limit', 'An element of `schedule` ([Schedules](schedules.md)): what differs at its times.'],
  active: ['Times', 'The value of `active` ([Schedules](schedules.md)).'],
  anchor: ['A date to align to', 'The value of `alignment`, where it is no text.'],
};

/** The reference of rule files, generated from the format that they are checked against. */
export function ruleKeysPage(): string {
  const sections = Object.entries(format).flatMap(([shape, fields]) => {
    const [title, about] = titles[shape as Shape]; // Object.entries types keys as strings
    return ['', `## ${title}`, '', about, '', ...tableOf(fields)];
  });
  return `${[
    '# Rule keys',
    '',
    'Every key of a rule file. [Rules](rules.md) introduces them by examples, and [Algorithms](algorithms.md) compares the',
    'algorithms. This page is generated from `src/engine/rules/read/format.ts` by `npm run docs`, as is the',
    '[schema](../config/schema/rules.schema.json) for editors.',
    '',
    'A file that has only keys with ✓ is valid in envoyproxy/ratelimit, too.',
    ...sections,
  ].join('\n')}\n`;
}

function tableOf(fields: Readonly<Record<string, Field>>): readonly string[] {
  const rows = Object.entries(fields).map(([key, field]) => {
    const conditions = [
      ...(field.required ? ['required'] : []),
      ...(field.insteadOf ? [`not with ${listOf(field.insteadOf)}`] : []),
      ...(field.goesWith ? [`only with \`algorithm\` ${listOf(field.goesWith)}`] : []),
    ];
    const meaning = [field.meaning, ...conditions].join('; ').replaceAll('|', '\\|');
    return `| \`${key}\` | ${valueAsText(field)} | ${referenceKeys.has(key) ? '✓' : ''} | ${meaning} |`;
  });
  return ['| key | value | in envoyproxy/ratelimit | meaning |', '| --- | --- | --- | --- |', ...rows];
}

const listOf = (names: readonly string[]): string => names.map((name) => `\`${name}\``).join(', ');

function valueAsText(field: Field): string {
  switch (field.type) {
    case 'text': {
      const text = field.choices ? listOf(field.choices) : field.pattern ? 'a text of a certain form' : 'a text';
      return field.orBlock ? `${text}, or [${lower(field.orBlock)}](#${anchorOf(field.orBlock)})` : text;
    }
    case 'texts':
      return 'a text, or a list of texts';
    case 'keys': {
      const lists = 'a list of texts, or a list of such lists';
      return field.orBlock ? `${lists}, or [${lower(field.orBlock)}](#${anchorOf(field.orBlock)})` : lists;
    }
    case 'count': {
      const { minimum = 0, maximum } = field;
      return maximum === undefined
        ? `a whole number${minimum > 0 ? `, at least ${minimum}` : ''}`
        : `${minimum} to ${maximum}`;
    }
    case 'flag':
      return '`true`, `false`';
    case 'struct':
      return 'a mapping';
    case 'block':
      return `[${lower(field.of)}](#${anchorOf(field.of)})`;
    case 'list': {
      const { minimum, maximum } = field;
      const count = maximum === undefined ? 'a list' : `a list of ${minimum ?? 0} to ${maximum}`;
      return `${count}: [${lower(field.of)}](#${anchorOf(field.of)})`;
    }
  }
}

const titleOf = (shape: string): string => titles[shape as Shape][0]; // `of` names a block of the format
const lower = (shape: string): string => titleOf(shape).toLowerCase();
const anchorOf = (shape: string): string => lower(shape).replaceAll(' ', '-');
