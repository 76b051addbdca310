import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Ajv } from 'ajv';
import { load } from 'js-yaml';
import { format } from '../../src/engine/rules/read/format.ts';
import { rulesFrom } from '../helpers/rules.ts';

const CONFIG = fileURLToPath(new URL('../../config/', import.meta.url));
const schema = JSON.parse(readFileSync(`${CONFIG}schema/rules.schema.json`, 'utf8'));
const validate = new Ajv({ allErrors: true, allowUnionTypes: true }).compile(schema);

/** The paths in the file that an editor would underline, each once. */
function underlined(yaml: string): readonly string[] {
  validate(load(yaml));
  return [...new Set(validate.errors?.map(({ instancePath }) => instancePath))];
}

/** A file with one node, whose lines have the indentation relative to the node. */
const node = (...lines: readonly string[]): string =>
  ['domain: demo', 'descriptors:', '  - key: user', ...lines.map((line) => `    ${line}`), ''].join('\n');

/** A file with one limit of these lines. */
const limit = (...lines: readonly string[]): string => node('rate_limit:', ...lines.map((line) => `  ${line}`));

type Wrong = readonly [what: string, yaml: string, place: string];

const wrongFiles: readonly Wrong[] = [
  ['an unknown key of the file', 'domain: demo\nlimits: []\n', ''],
  ['no domain', 'descriptors: []\n', ''],
  ['an empty domain', 'domain: ""\n', '/domain'],
  ['an unknown spend', 'domain: demo\nspend: everything\n', '/spend'],
  ['nodes that are not a list', 'domain: demo\ndescriptors: { key: user }\n', '/descriptors'],
  ['no key', 'domain: demo\ndescriptors: [{ value: alice }]\n', '/descriptors/0'],
  ['a value that is a list', node('value: [alice, bob]'), '/descriptors/0/value'],
  ['metadata that is text', node('metadata: team-a'), '/descriptors/0/metadata'],
  ['no limit in a list of limits', node('rate_limits: []'), '/descriptors/0/rate_limits'],
  ['17 limits on one node', node(`rate_limits: [${'{ unit: day },'.repeat(17)}]`), '/descriptors/0/rate_limits'],
  [
    'both rate_limit and rate_limits',
    node('rate_limit: { unit: day }', 'rate_limits: [{ unit: day }]'),
    '/descriptors/0/rate_limit',
  ],
  ['an unknown key of a limit', limit('unit: day', 'requestsPerUnit: 5'), '/descriptors/0/rate_limit'],
  ['a key of an algorithm that is not named', limit('unit: day', 'burst: 6'), '/descriptors/0/rate_limit'],
  ['a replaced limit without a name', limit('unit: day', 'replaces: [{}]'), '/descriptors/0/rate_limit/replaces/0'],
];

/** An error, the key of the limit that has it, and the lines of the limit. */
const wrongLimits: readonly (readonly [what: string, key: string, ...lines: readonly string[]])[] = [
  ['an unknown unit', 'unit', 'unit: minutes'],
  ['a count that is a fraction', 'requests_per_unit', 'unit: day', 'requests_per_unit: 1.5'],
  ['a count in quotes', 'requests_per_unit', 'unit: day', 'requests_per_unit: "5"'],
  ['a count below 0', 'requests_per_unit', 'unit: day', 'requests_per_unit: -1'],
  ['a count above 2^53', 'requests_per_unit', 'unit: day', 'requests_per_unit: 9007199254740992'],
  ['both unit and window', 'unit', 'unit: day', 'window: 1d'],
  ['a window without its unit', 'window', 'window: 30'],
  ['a window of no units', 'unit_multiplier', 'unit: day', 'unit_multiplier: 0'],
  ['an unknown alignment', 'alignment', 'unit: day', 'alignment: monday'],
  ['too many buckets', 'buckets', 'unit: day', 'algorithm: sliding_window_buckets', 'buckets: 200'],
  [
    'a key of another algorithm',
    'algorithm',
    'unit: day',
    'requests_per_unit: 5',
    'algorithm: leaky_bucket',
    'buckets: 6',
  ],
];

describe('the schema', () => {
  const shipped = readdirSync(CONFIG, { encoding: 'utf8', recursive: true }).filter((name) => name.endsWith('.yaml'));
  test.each(shipped)('accepts %s', (name) => {
    expect(underlined(readFileSync(join(CONFIG, name), 'utf8'))).toEqual([]);
  });

  test.each(Object.entries(format))('knows every key of a block: %s', (block, fields) => {
    expect(Object.keys(schema.definitions[block].properties)).toEqual(Object.keys(fields));
  });

  test.each([
    ['a unit in capitals', limit('unit: MINUTE', 'requests_per_unit: 5')],
    ['a window of several units', limit('window: 1h30m', 'requests_per_unit: 5')],
    ['a value that looks like a number', node('value: 404')],
    ['a value that looks like a flag', node('value: true')],
    ['a limit of any algorithm', limit('algorithm: leaky_bucket', 'unit: day', 'requests_per_unit: 5', 'burst: 2')],
    ['a limit that replaces another', limit('unit: day', 'name: paid', 'replaces: [{ name: free }]')],
    ['a file without descriptors', 'domain: demo\n'],
  ])('accepts %s, like the loader', (_, yaml) => {
    expect(rulesFrom(yaml).domains.size).toBe(1);
    expect(underlined(yaml)).toEqual([]);
  });

  test.each([
    ...wrongFiles,
    ...wrongLimits.map(([what, key, ...lines]): Wrong => [what, limit(...lines), `/descriptors/0/rate_limit/${key}`]),
  ])('refuses %s, like the loader', (_, yaml, place) => {
    expect(() => rulesFrom(yaml)).toThrow('rules.yaml:');
    expect(underlined(yaml)).toEqual([place]);
  });
});
