import { relative } from 'node:path';
import { parseArgs } from 'node:util';
import { type Generator, startGenerator } from './generator/generator.ts';
import { findProgram, type Peer } from './peers/peer.ts';
import { peers } from './peers/peers.ts';
import { shapes } from './shapes.ts';
import { setStage } from './stage.ts';

export const usage = `Usage: npm run proof -- peers

Builds the services that npm run bench compares Weir with, into .cache/peers, where it finds them there.
Prints the version and the path of each, and tests each: it must start and refuse a call that is over a limit.
If a peer is not available, prints the reason and still exits with 0.

${peers.map(({ name, variable }) => `  ${variable.padEnd(16)} a program of ${name} to use instead of building one`).join('\n')}

  --help           this text
`;

export async function run(args: readonly string[]): Promise<void> {
  parseArgs({ args });
  const generator = startGenerator();
  try {
    for (const peer of peers) console.log(await report(peer, generator));
  } finally {
    generator.stop();
  }
}

/** Provides one peer. @returns a paragraph with its version and path, or why it is unavailable */
async function report(peer: Peer, generator: Generator): Promise<string> {
  try {
    if (findProgram(peer, process.env) === undefined) console.error(`Building ${peer.name} …`);
    if (!process.env[peer.variable]) await peer.build();
    const program = findProgram(peer, process.env) ?? peer.cached;
    const version = await peer.versionOf(program);
    await tryOut(peer, program, generator);
    return `${peer.name} ${version}\n  ${relative('', program)}\n  starts, and refuses a call that is over a limit`;
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return `${peer.name}: not available\n${why.replace(/^/gm, '  ')}`;
  }
}

/** @throws Error if the peer does not start, or does not apply its rules */
async function tryOut(peer: Peer, program: string, generator: Generator): Promise<void> {
  const subject = peer.subjectOf(program);
  const shape = shapes.find((candidate) => subject.serves(candidate));
  if (!shape) throw new Error(`no row of the benchmark is for ${peer.name}`);
  const stage = await setStage(subject, shape, generator); // fails for a service without rules
  await stage.clear();
}
