import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const CLIENT = fileURLToPath(new URL('../../client', import.meta.url));

test('the reference of the client is generated without a warning, so everything in it is documented', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'client-reference-'));
  try {
    const typedoc = join(CLIENT, 'node_modules/typedoc/bin/typedoc');
    const run = promisify(execFile)(process.execPath, [typedoc, '--out', folder], { cwd: CLIENT });
    const { stdout, stderr } = await run.catch((error) => error);
    expect(`${stdout}${stderr}`).not.toMatch(/warning|error/i);
    for (const page of ['functions/index.createClient.html', 'functions/express.rateLimit.html'])
      expect(existsSync(join(folder, page))).toBe(true);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
