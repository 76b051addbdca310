// `npm start` runs this first: it builds dist/ unless that is newer than all its sources. Plain JavaScript starts fast.
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const PROJECT = fileURLToPath(new URL('..', import.meta.url));
const SOURCES = ['src', 'console', 'deploy/build.ts', 'package.json', 'package-lock.json'];

/** Includes folders: their own times change when a file is added, renamed or removed. */
const pathsOf = (path) =>
  statSync(path).isDirectory()
    ? [path, ...readdirSync(path, { recursive: true, encoding: 'utf8' }).map((name) => join(path, name))]
    : [path];

function isOutdated() {
  const built = join(PROJECT, 'dist/main.js');
  if (!existsSync(built)) return true;
  const builtMs = statSync(built).mtimeMs;
  return SOURCES.map((name) => join(PROJECT, name))
    .filter((path) => existsSync(path))
    .flatMap(pathsOf)
    .some((path) => statSync(path).mtimeMs > builtMs);
}

if (isOutdated())
  execFileSync(process.execPath, ['--import', 'tsx', 'deploy/build.ts'], { cwd: PROJECT, stdio: 'inherit' });
