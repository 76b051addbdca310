import { rmSync } from 'node:fs';
import { basename } from 'node:path';

/** Removes the folder of setup.ts, to which processes that end may still write. */
export default function teardown(): void {
  const { TMPDIR = '' } = process.env;
  if (basename(TMPDIR).startsWith('weir-tests-')) rmSync(TMPDIR, { recursive: true, force: true, maxRetries: 3 });
}
