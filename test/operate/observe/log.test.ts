import '../../helpers/realm.ts';
import { type ChildProcessByStdio, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, mkdtempSync, openSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { counted } from '../../../src/base/texts.ts';

const PROGRAM = join(__dirname, 'processes/log-lines.ts');
const PROJECT = join(__dirname, '../../..');

/** The lines that a program logs to a pipe that is read from when it has logged all of them. */
async function logged(lines: number, then: 'exits' | 'logs more'): Promise<readonly string[]> {
  const pipe = join(mkdtempSync(join(tmpdir(), 'log-')), 'pipe');
  execFileSync('mkfifo', [pipe]);
  const open = openSync(pipe, 'r+'); // nobody reads yet
  const stderr = openSync(pipe, 'w');
  const { stdin, stdout } = spawn(join(PROJECT, 'node_modules/.bin/tsx'), [PROGRAM, String(lines), then], {
    stdio: ['pipe', 'pipe', stderr],
  }) as ChildProcessByStdio<Writable, Readable, null>;
  closeSync(stderr);
  await once(stdout, 'data'); // all are logged
  const reader = spawn('cat', [pipe], { stdio: ['ignore', 'pipe', 'inherit'] });
  closeSync(open);
  const read = text(reader.stdout);
  stdin.end();
  return (await read).trimEnd().split('\n');
}

test('a process that ends writes the lines for which a pipe had no room', async () => {
  expect(await logged(200, 'exits')).toHaveLength(200);
});

test('lines that were lost since a pipe took none are counted in a line', async () => {
  const lines = await logged(2_000, 'logs more');
  const [said] = lines.slice(-1).map((line) => JSON.parse(line)['@message']);
  expect(said).toContain(`${counted(2_000 - (lines.length - 1), 'line')} of this log lost`);
});
