import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { parseChoice, parseCount } from '../options.ts';
import { attacks } from './attacks.ts';
import { resultHead, resultRow } from './report.ts';
import { type RunOptions, runAttack } from './run-attack.ts';
import { PROJECT } from './service.ts';
import { findProblems } from './verdict.ts';

export const usage = `Usage: npm run proof -- attack [options]

Starts the service with a small heap, once for each attack, and attacks it on this machine while another client keeps calling it.
Prints a table of the effects on the service and on the other client. Exits with 1 if the service failed an attack.

  --only TEXT       only the attacks whose names contain TEXT
  --dir DIR         the checkout whose build is attacked (this one)
  --transport NAME  h2 or grpc-js (h2)
  --heap MIB        the limit of the service's heap (256)
  --quick           no comparison with the same number of valid bytes
  --json            a line of JSON for each attack instead of the table
  --list            print the names of the attacks
  --help            print this text
`;

const options = {
  only: { type: 'string', default: '' },
  dir: { type: 'string', default: PROJECT },
  transport: { type: 'string', default: 'h2' },
  heap: { type: 'string', default: '256' },
  quick: { type: 'boolean', default: false },
  json: { type: 'boolean', default: false },
  list: { type: 'boolean', default: false },
} as const;

const NORMAL_MS = 5_000;
const ATTACK_MS = 2_500;

export async function run(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({ args, options });
  const chosen = attacks.filter(({ name }) => name.toLowerCase().includes(values.only.toLowerCase()));
  if (chosen.length === 0) throw new Error(`--only must be a part of an attack's name, got '${values.only}'`);
  if (values.list) return console.log(chosen.map(({ name }) => name).join('\n'));
  const plan: RunOptions = {
    dir: built(values.dir),
    transport: parseChoice('--transport', values.transport, ['h2', 'grpc-js']),
    heapMib: parseCount('--heap', values.heap, 99_999),
    normalMs: NORMAL_MS,
    attackMs: ATTACK_MS,
    compares: !values.quick,
  };
  if (!values.json) console.log(resultHead);
  const notes: string[] = [];
  let withstood = 0;
  for (const [at, attack] of chosen.entries()) {
    console.error(`${at + 1} of ${chosen.length}: ${attack.name} …`);
    const result = await runAttack(attack, plan).catch((error: Error) => error);
    if (result instanceof Error) {
      notes.push(`${attack.name}: not measured: ${result.message}`);
      continue;
    }
    const problems = findProblems(result, plan.heapMib);
    console.log(values.json ? JSON.stringify({ ...result, problems }) : resultRow(result, plan.heapMib));
    if (problems.length === 0) withstood++;
    if (result.end !== undefined) notes.push(`${attack.name}: ${result.end}`);
  }
  const summary = `The service withstood ${withstood} of ${chosen.length} attacks.`;
  console.error(['', summary, ...notes].join('\n'));
  if (withstood < chosen.length) process.exitCode = 1;
}

function built(dir: string): string {
  if (existsSync(join(dir, 'dist/main.js'))) return resolve(dir);
  throw new Error(`--dir must be a checkout that is built (dist/main.js), got '${dir}'`);
}
