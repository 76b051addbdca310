import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readBounded } from '../../../../src/engine/rules/read/bounded-file.ts';
import { MAIN } from '../../../helpers/weir.ts';

const MAX_BYTES = 100_000;

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'bounded-file-'));
});

const at = (name: string): string => join(folder, name);

const read = (path: string): Buffer => readBounded(path, MAX_BYTES);

test.each([0, 1, 70_000, MAX_BYTES])('a file of %d bytes is read through a link', (bytes) => {
  writeFileSync(at('file'), 'x'.repeat(bytes));
  symlinkSync(at('file'), at('link'));
  expect(read(at('link')).toString()).toBe('x'.repeat(bytes));
});

test('a file whose size is unknown until it is read', () => {
  expect(read('/proc/self/status').toString()).toContain('Name:');
});

test('a larger file is refused', () => {
  writeFileSync(at('file'), 'x'.repeat(MAX_BYTES + 1));
  expect(() => read(at('file'))).toThrow('a file may have at most 100000 bytes, got 100001');
});

test('a missing file is refused with its path', () => {
  expect(() => read(at('file'))).toThrow(at('file'));
});

test('pipes, sockets, devices and directories are refused, also through a link', async () => {
  execFileSync('mkfifo', [at('pipe')]);
  const socket = createServer();
  await new Promise<void>((resolve) => socket.listen(at('socket'), resolve));
  for (const [path, kind] of [
    [at('pipe'), 'a named pipe'],
    [at('socket'), 'a socket'],
    ['/dev/zero', 'a device'],
    [folder, 'a directory'],
  ] as const) {
    rmSync(at('link'), { force: true });
    symlinkSync(path, at('link'));
    for (const one of [path, at('link')]) expect(() => read(one)).toThrow(`it is ${kind}, expected a regular file`);
  }
  await new Promise((resolve) => socket.close(resolve));
});
test('a command reads pipes passed by a shell, within the bound', () => {
  expect(() => readBounded('/dev/zero', MAX_BYTES, true)).toThrow('at most 100000 bytes, got more');
  expect(readBounded('/dev/null', MAX_BYTES, true)).toHaveLength(0);
});

test('weir check reads rules and an overlay from pipes', () => {
  writeFileSync(
    at('rules.yaml'),
    'domain: demo\ndescriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 50}}]\n',
  );
  writeFileSync(at('overlay.yaml'), 'domain: demo\ndescriptors: [{key: user, rate_limit: {requests_per_unit: 60}}]\n');
  const check = `'${process.execPath}' '${MAIN}' check <(cat rules.yaml) --overlay <(cat overlay.yaml)`;
  expect(execFileSync('bash', ['-c', check], { cwd: folder, encoding: 'utf8' })).toContain('1 rule');
});
