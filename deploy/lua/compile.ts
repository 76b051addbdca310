import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Linked, link, linkScript } from './link.ts';

const PROJECT = fileURLToPath(new URL('../..', import.meta.url));
const OUTPUT = join(PROJECT, 'src/engine/lua/compiled.ts');
const SCRIPTS = 'src/engine/backends/redis/scripts';
/** Each file of these folders that exports a function `step` is compiled. A build may leave the parts out. */
const FOLDERS = ['src/engine/algorithms', 'src/engine/holds', SCRIPTS, 'src/parts/adaptive', 'src/parts/sites'].filter(
  (folder) => existsSync(join(PROJECT, folder)),
);
/** The scripts that call steps: the file, its function, and the files of the script around it. */
const scripts: Readonly<Record<string, readonly [file: string, entry: string, outer?: readonly string[]]>> = {
  dispatcher: ['dispatcher.ts', 'run'],
  requests: ['requests.ts', 'decide', ['dispatcher.ts', 'counters.ts', 'nodes.ts']],
  lone: ['lone.ts', 'run'],
  usage: ['usage.ts', 'run'],
};

const usage = `Usage: npx tsx deploy/lua/compile.ts [--check]

Compiles the steps in ${FOLDERS.join(' and ')} to Lua, into src/engine/lua/compiled.ts.

  --check  only checks that the file is up to date
`;

/** Writes the scripts if steps, or the compiler, have changed since they were written. */
export async function compileSteps(): Promise<void> {
  const steps = findSteps();
  const digest = digestOf(steps);
  if (!read().includes(digest)) writeFileSync(OUTPUT, await compileAll(steps, digest));
}

const read = (): string => (existsSync(OUTPUT) ? readFileSync(OUTPUT, 'utf8') : '');

async function compileAll(steps: ReadonlyMap<string, Linked>, digest: string): Promise<string> {
  const { compile, compileScript } = await import('./to-lua.ts'); // it takes a second to load
  const entries = [...steps].map(([name, linked]) => `  ${name}: ${JSON.stringify(compile(name, linked))},\n`);
  const texts = Object.entries(findScripts()).map(
    ([name, linked]) => `  ${name}: ${JSON.stringify(compileScript(name, linked))},\n`,
  );
  return `${head(digest)}export const compiled = {\n${entries.join('')}};

/** What runs steps: see script.ts. */
export const compiledScripts = {\n${texts.join('')}};\n`;
}

function findScripts(): Readonly<Record<string, Linked>> {
  const pathTo = (file: string): string => join(PROJECT, SCRIPTS, file);
  const linked = Object.entries(scripts).map(([name, [file, entry, outer]]) => [
    name,
    linkScript(pathTo(file), entry, outer?.map(pathTo)),
  ]);
  return Object.fromEntries(linked);
}

const head = (
  digest: string,
): string => `// Generated from steps by npx tsx deploy/lua/compile.ts, not to be edited: docs/lua.md
// ${digest}
/** The Lua of each step: what Redis runs, and the names of the numbers of a limit, in their order. */
`;

function findSteps(): ReadonlyMap<string, Linked> {
  const steps = new Map<string, Linked>();
  for (const folder of FOLDERS) {
    for (const file of readdirSync(join(PROJECT, folder)).filter((name) => name.endsWith('.ts'))) {
      const linked = link(join(PROJECT, folder, file));
      if (linked) steps.set(basename(file, '.ts').replaceAll('-', '_'), linked);
    }
  }
  return steps;
}

function digestOf(steps: ReadonlyMap<string, Linked>): string {
  const hash = createHash('sha256').update(JSON.stringify([[...steps], findScripts()]));
  for (const name of ['to-lua.ts', 'subset.ts', 'package.json'])
    hash.update(readFileSync(new URL(name, import.meta.url)));
  return hash.digest('hex');
}

async function checkSteps(): Promise<void> {
  const steps = findSteps();
  if (read() === (await compileAll(steps, digestOf(steps)))) return;
  process.stderr.write('src/engine/lua/compiled.ts is not up to date: run npx tsx deploy/lua/compile.ts\n');
  process.exitCode = 1;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  if (process.argv.includes('--help')) process.stdout.write(usage);
  else void (process.argv.includes('--check') ? checkSteps() : compileSteps());
}
