import { readFileSync } from 'node:fs';
import { actionNames } from '../../src/parts/lab/mapping/actions.ts';
import { parseMapping } from '../../src/parts/replay/mapping/mapping.ts';
import { headerAliases } from '../../src/parts/replay/readers/fields.ts';
import { logFormats } from '../../src/parts/replay/readers/format-names.ts';

const page = readFileSync('docs/replay.md', 'utf8');

test('the mappings on the page and in its file are valid', () => {
  const [written = ''] = /(?<=```yaml\n)[^`]*/.exec(page) ?? [];
  expect(parseMapping('page', written)).toHaveProperty('mapping');
  expect(parseMapping('mapping.yaml', readFileSync('docs/mapping.yaml', 'utf8'))).toHaveProperty('mapping');
});

test('the page names every format, action and header field', () => {
  for (const name of [...logFormats, ...actionNames]) expect(page).toContain(`| \`${name}\` |`);
  for (const header of [':path', ':method', ':authority', 'x-request-id'])
    expect(page).toContain(
      `| \`${header}\` | ${headerAliases(header)
        .map((name) => `\`${name}\``)
        .join(', ')} |`,
    );
  expect(page).toContain(
    `| ${headerAliases('x-user')
      .map((name) => `\`${name}\``)
      .join(', ')} |`,
  );
});

test('the command prints the error that the page shows', () => {
  const parsed = parseMapping(
    'mapping.yaml',
    'domain: demo\nrate_limits:\n  - actions:\n      - request_headers: { header_name: a }\n',
  );
  expect(
    'problems' in parsed &&
      page.includes(`mapping.yaml:4: ${parsed.problems[0]?.path}: ${parsed.problems[0]?.message}`),
  ).toBe(true);
});
