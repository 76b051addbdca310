import { writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import { wrapped } from '../../docs/wrap.ts';
import { parseChoice, parseCount } from '../options.ts';
import { table } from '../tables/table.ts';
import type { ChildResult } from './child.ts';
import { drawSequence } from './diagram.ts';
import { mutants } from './mutants.ts';
import { protocols } from './protocols.ts';
import { inParallel, runProtocol } from './run-protocol.ts';

export const usage = `Usage: npm run proof -- explore [options]

Runs the code of each protocol (leases, local counts, slots, reservations, pending commits, invalidation, sites, quota
shares, deferral, the candidate, fixed windows) in small worlds of one to three processes, a store and a network, in every order of
their steps: messages that are lost, late or repeated, processes that are killed, clocks that step. Checks invariants in
every state. Prints the explored space of each protocol, and for a violation the shortest sequence of steps to it. Exits
with 1 if an invariant is violated.

  --depth N        the maximum number of steps; default: one of each protocol, about two minutes of CPU time in all
  --long           more steps: an hour or more, and up to 7 GB of memory
  --protocol NAME  only this one: ${[...protocols.keys()].join(', ')}
  --mutants        makes changes to the code instead, one at a time, and checks that each is found
  --write          writes docs/results/explore.md
  --help           prints this text
`;

const MAX_DEPTH = 200;

export async function run(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      depth: { type: 'string' },
      long: { type: 'boolean', default: false },
      protocol: { type: 'string' },
      mutants: { type: 'boolean', default: false },
      write: { type: 'boolean', default: false },
    },
  });
  const depth = values.depth === undefined ? undefined : parseCount('--depth', values.depth, MAX_DEPTH);
  const names = [...protocols.keys()];
  const chosen = values.protocol === undefined ? names : [parseChoice('--protocol', values.protocol, names)];
  if (values.mutants) return reportMutants(chosen);
  const count = values.long ? 1 : availableParallelism();
  const results = await inParallel(chosen, count, async (name) => {
    const result = await runProtocol(name, { depth, isLong: values.long });
    console.error(`${name}: ${result.states} states in ${result.seconds.toFixed(1)} s of CPU time`);
    return result;
  });
  console.log(stateTable(results));
  for (const result of results) reportViolation(result);
  if (values.write) writeFileSync(new URL('../../docs/results/explore.md', import.meta.url), page(results, args));
}

const thousands = (number: number): string => number.toLocaleString('en-US');

const stateTable = (results: readonly ChildResult[]): string =>
  table(
    ['protocol', 'code', 'parties', 'steps', 'states', 'transitions', 'CPU s', 'MB'],
    3,
    results.map(({ name, code, parties, isClosed, longest, depth, states, steps, seconds, peakMb }) => [
      name,
      code,
      parties.join(', '),
      isClosed ? `all (${longest})` : depth,
      thousands(states),
      thousands(steps),
      seconds.toFixed(1),
      thousands(peakMb),
    ]),
  );

function reportViolation({ name, violation, parties }: ChildResult): void {
  if (!violation) return;
  console.log(`\n${name}: ${violation.text}\n\n${drawSequence(parties, violation.lines)}`);
  process.exitCode = 1;
}

async function reportMutants(chosen: readonly string[]): Promise<void> {
  const all = mutants
    .filter(({ protocol }) => chosen.includes(protocol))
    .flatMap(({ protocol, file, depth, changes }) => changes.map((change) => ({ protocol, file, depth, change })));
  const found = await inParallel(all, availableParallelism(), async ({ protocol, file, depth, change }) => {
    const { violation, seconds } = await runProtocol(protocol, { depth, isShortest: false }, { file, change });
    const outcome = violation ? `found after ${violation.length} steps: ${violation.text.split('\n')[0]}` : 'SURVIVED';
    console.log(`${file}: ${change[0].trim().split('\n')[0]}\n  ${outcome} (${seconds.toFixed(1)} s)`);
    return violation !== undefined;
  });
  const count = found.filter(Boolean).length;
  console.log(`${count} of ${found.length} changes found`);
  if (count < found.length) process.exitCode = 1;
}

function page(results: readonly ChildResult[], args: readonly string[]): string {
  const states = results.reduce((sum, one) => sum + one.states, 0);
  const options = args.filter((one) => one !== '--write').map((one) => ` ${one}`);
  const isKept = results.every(({ violation }) => violation === undefined);
  const invariants = results.map(({ name, invariants: kept }) => `- **${name}**: ${kept.join('; ')}.`);
  return wrapped(
    `${[
      '# Results: exploration',
      '',
      isKept ? `Every invariant holds in all ${thousands(states)} states.` : 'Some invariants are violated.',
      '',
      `\`npm run proof -- explore${options.join('')}\` runs the code of each protocol in small worlds, in every order of their steps, with`,
      'faults at every step: [how it works](../reliability.md#exploration). A number of steps is the depth to which the space is',
      'complete; "all" means that nothing more can happen in the world, whose calls, faults and steps of time are limited.',
      'This page is written by the command with `--write`.',
      '',
      stateTable(results),
      '',
      '## Invariants',
      '',
      ...invariants,
      '',
      `\`npm run proof -- explore --mutants\` makes ${mutants.reduce((sum, { changes }) => sum + changes.length, 0)} changes to this code, one at a time; the exploration finds each.`,
    ].join('\n')}\n`,
  );
}
