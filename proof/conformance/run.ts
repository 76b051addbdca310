import { readFileSync, writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { type Profile, profiles } from '../../conformance/src/case.ts';
import { asText, countByProfile } from '../../conformance/src/reports.ts';
import type { Result } from '../../conformance/src/run.ts';
import { wrapped } from '../../docs/wrap.ts';
import { findProgram, type Peer } from '../bench/peers/peer.ts';
import { referencePeer } from '../bench/peers/reference.ts';
import { tableHead, tableRow } from '../tables/table.ts';
import { startReferenceUnderTest, startWeirUnderTest, testServer } from './servers.ts';

export const usage = `Usage: npm run proof -- conformance [--write]

Runs rls-conformance against Weir, envoyproxy/ratelimit and Limitador, as far as npm run proof -- peers provides them,
and prints docs/results/conformance.md. Exits with 1 if the page has other bytes.

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
  const reference = await provide(referencePeer);
  rows.push({
    name: 'envoyproxy/ratelimit',
    results: reference === undefined ? undefined : await testServer(await startReferenceUnderTest(reference)),
  });
  rows.push({ name: 'Limitador', results: undefined });
  for (const { name, results } of rows) if (results) console.error(`${name}\n${asText(results)}`);
  const page = conformancePage(rows);
  process.stdout.write(page);
  if (values.write) writeFileSync(PAGE, page);
  else if (readFileSync(PAGE, 'utf8') !== page) throw new Error('docs/results/conformance.md has other bytes');
}

async function provide(peer: Peer): Promise<string | undefined> {
  if (findProgram(peer, process.env) === undefined) await peer.build();
  return findProgram(peer, process.env);
}

function conformancePage(rows: readonly Row[]): string {
  const cells = ({ name, results }: Row): string => {
    const counts = new Map(
      countByProfile(results ?? []).map(([profile, passed, of]) => [profile, `${passed} of ${of}`]),
    );
    return tableRow([name, ...all.map((profile) => counts.get(profile) ?? 'not run')]);
  };
  const failures = rows.flatMap(({ name, results = [] }) =>
    results
      .filter(({ outcome }) => outcome === 'failed')
      .map(({ of: { id, title, why } }) => `- ${name}, \`${id}\`, ${title}. ${why}`),
  );
  return wrapped(`# Results: conformance

What servers of the Rate Limit Service do of the cases of [\`rls-conformance\`](../../conformance/README.md), passed and
all by profile. A profile is a claim: a server need not make each.

| | of this page |
| --- | --- |
| command | \`npm run proof -- conformance --write\` |
| servers | Weir with counters in memory; envoyproxy/ratelimit with Redis, built from its Go module |

${tableHead(['server', ...all], 1)}
${rows.map(cells).join('\n')}

${LIMITADOR}

## Cases that fail

${failures.join('\n') || 'None.'}
`);
}

const LIMITADOR = `**Limitador** could not be tested: the registry of crates has its library but not its server (\`npm run proof -- peers\`),
and it reads limits in a format of its own instead of envoyproxy/ratelimit's rule files, which only the profiles
\`protocol\`, \`envoy\` and \`kuadrant\` could do without.`;
