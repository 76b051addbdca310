import { spawn } from 'node:child_process';
import type { Readable } from 'node:stream';

const PROBE = new URL('../../../proof/attack/probe.mjs', import.meta.url).href;
const SAMPLES = 5;
const MAX_MS = 20_000;

/** Allocates memory on the heap and outside, in one turn of the event loop, until some samples have been taken. */
const busy = `
  const sample = globalThis.attackProbe;
  let samples = 0;
  globalThis.attackProbe = () => {
    samples++;
    return sample();
  };
  const kept = [];
  const endMs = performance.now() + ${MAX_MS};
  for (let taken = -1; samples < ${SAMPLES} && performance.now() < endMs; ) {
    if (samples === taken) continue;
    taken = samples;
    kept.push(Buffer.alloc(2_000_000), Array(200_000).fill(0.5));
  }
  process.stdout.write(String(samples));
  setTimeout(() => process.exit(), 500);
`;

test('the probe samples heap and external memory while the event loop is blocked', async () => {
  const child = spawn(process.execPath, ['--expose-gc', '--import', PROBE, '-e', busy], {
    stdio: ['ignore', 'pipe', 'ignore', 'pipe'],
  });
  const text = { output: '', lines: '' };
  child.stdout?.on('data', (chunk) => {
    text.output += chunk;
  });
  (child.stdio[3] as Readable).on('data', (chunk) => {
    // a pipe, by the options above
    text.lines += chunk;
  });
  await new Promise((resolve) => child.once('close', resolve));
  expect(Number(text.output)).toBeGreaterThanOrEqual(SAMPLES);
  const samples = text.lines
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line).sample);
  const growth = (name: string): number => samples[SAMPLES - 1][name] - samples[0][name];
  expect(growth('external')).toBeGreaterThan(5_000_000);
  expect(growth('heapUsed')).toBeGreaterThan(1_000_000); // collections free some of it
  expect(samples.at(-1).stallMs).toBeGreaterThan(0);
});
