import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { showUsage } from '../deploy/usage.ts';
import { scenarioNames } from '../src/parts/simulate/scenario-names.ts';

const usage = `Usage: npm run docs [-- scenarios | client-reference]

Writes the generated pages of docs/, the plots and the schema of rule files anew, and lists them.

  scenarios         instead draws what each algorithm does in each scenario of \`weir simulate\`: docs/scenarios/
  client-reference  instead writes the reference of the client to client/reference
`;

const write = (path: string, text: string): void => {
  writeFileSync(new URL(`../${path}`, import.meta.url), text);
  console.log(path);
};

async function writePages(): Promise<void> {
  const { generatedPages } = await import('./generated-pages.ts');
  const { plots } = await import('./plots.ts');
  const { sharePlots } = await import('./share-plots.ts');
  const { scalingPage } = await import('./scaling-page.ts');
  for (const [path, text] of [...generatedPages, ...plots, ...sharePlots]) write(path, text);
  write('docs/scaling.md', await scalingPage());
}

async function drawScenarios(): Promise<void> {
  const { pathOf, scenarioPlot } = await import('./scenario-plots.ts');
  for (const name of scenarioNames) write(pathOf(name), await scenarioPlot(name));
}

function writeClientReference(): void {
  const client = new URL('../client/', import.meta.url);
  execFileSync(process.execPath, ['node_modules/typedoc/bin/typedoc'], { cwd: client, stdio: 'inherit' });
}

const parts: Readonly<Record<string, () => unknown>> = {
  pages: writePages,
  scenarios: drawScenarios,
  'client-reference': writeClientReference,
};

showUsage(usage, 1);
const [part = 'pages'] = process.argv.slice(2);
const make = parts[part];
if (make) void make();
else {
  process.stderr.write(`unexpected argument '${part}'\n\n${usage}`);
  process.exitCode = 1;
}
