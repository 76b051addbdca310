import { readFileSync, writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { type Profile, profiles } from '../../conformance/src/case.ts';
import { asText, countByProfile } from '../../conformance/src/reports.ts';
import type { Result } from '../../conformance/src/run.ts';
import { wrapped } from '../../docs/wrap.ts';
import { findProgram } from '../bench/peers/peer.ts';
import { referencePeer } from '../bench/peers/reference.ts';
import { tableHead, tableRow } from '../tables/table.ts';
import { startReferenceUnderTest, startWeirUnderTest, testServer } from './servers.ts';

export const usage = `Usage: npm run proof -- conformance [--write]

Runs rls-conformance against Weir, envoyproxy/ratelimit (as npm run proof -- peers builds it, and the program that
REFERENCE_BIN names, if any) and Limitador, and prints docs/results/conformance.md. Exits with 1 if the page has other
bytes.

  --write  writes the page
  --help   this text
`;

const PAGE = new URL('../../docs/results/conformance.md', import.meta.url);
const all = Object.keys(profiles) as readonly Profile[];

interface Row {
  readonly name: string;
  /** Undefined if it was not tested. */
  readonly results: readonly Result[] | undefined;
}

export async function run(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({ args: [...args], options: { write: { type: 'boolean', default: false } } });
  const rows: Row[] = [{ name: 'Weir', results: await testServer(await startWeirUnderTest()) }];
  for (const program of await referencePrograms()) {
    const name = `envoyproxy/ratelimit of ${commitOf(await referencePeer.versionOf(program))}`;
    rows.push({ name, results: await testServer(await startReferenceUnderTest(program)) });
  }
  rows.push({ name: 'Limitador', results: undefined });
  for (const { name, results } of rows) if (results) console.error(`${name}\n${asText(results)}`);
  const page = conformancePage(rows);
  process.stdout.write(page);
  if (values.write) writeFileSync(PAGE, page);
  else if (readFileSync(PAGE, 'utf8') !== page) throw new Error('docs/results/conformance.md has other bytes');
}

/** envoyproxy/ratelimit at the version that the benchmarks pin, and the one that REFERENCE_BIN names. */
async function referencePrograms(): Promise<readonly string[]> {
  if (findProgram(referencePeer, {}) === undefined) await referencePeer.build();
  return [...new Set([referencePeer.cached, findProgram(referencePeer, process.env) ?? referencePeer.cached])];
}

/** The day and commit of a pseudo-version of Go, as in v1.4.1-0.20260122083618-3fb702589d36; others as they are. */
function commitOf(version: string): string {
  const [, year, month, day, commit] = /\.(\d{4})(\d\d)(\d\d)\d{6}-([0-9a-f]{7})/.exec(version) ?? [];
  return year === undefined ? version : `${year}-${month}-${day} (${commit})`;
}

function conformancePage(rows: readonly Row[]): string {
  const cells = ({ name, results }: Row): string => {
    const counts = new Map(
      countByProfile(results ?? []).map(([profile, passed, of]) => [profile, `${passed} of ${of}`]),
    );
    return tableRow([name, ...all.map((profile) => counts.get(profile) ?? 'not run')]);
  };
  const failures = rows.map(({ name, results = [] }) => {
    const failed = results.filter(({ outcome }) => outcome === 'failed');
    const lines = failed.map(({ of: { id, title, why } }) => `- \`${id}\`, ${title}. ${why}\n`);
    return lines.length === 0 ? '' : `**${name}**\n\n${lines.join('')}\n`;
  });
  return wrapped(`# Results: conformance

What servers of the Rate Limit Service do of the cases of [\`rls-conformance\`](../../conformance/README.md), passed and
all by profile. A profile is a claim: a server need not make each.

| | of this page |
| --- | --- |
| command | \`npm run proof -- conformance --write\` |
| servers | Weir with counters in memory; envoyproxy/ratelimit with Redis, at the newest version that the proxy of Go modules serves, and the [one that REFERENCE_BIN names](../performance.md#the-peers) |

${tableHead(['server', ...all], 1)}
${rows.map(cells).join('\n')}

${LIMITADOR}

## Cases that fail

${failures.join('').trimEnd() || 'None.'}
`);
}

const LIMITADOR = `**Limitador** could not be tested: the registry of crates has its library but not its server (\`npm run proof -- peers\`),
and it reads limits in a format of its own instead of envoyproxy/ratelimit's rule files, which only the profiles
\`protocol\`, \`envoy\` and \`kuadrant\` could do without.`;
