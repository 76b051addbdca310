import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const FOLDER = fileURLToPath(new URL('../../findings', import.meta.url));
const scripts = readdirSync(FOLDER).filter((file) => file.endsWith('.sh'));

test('the table of findings has a row with a version and a date for each script, in any order', () => {
  const rows = readFileSync(join(FOLDER, 'README.md'), 'utf8').matchAll(
    /^\| \[([\w-]+)\]\(\1\.sh\) \|(?: [^|]+ \|){2} [^|]*\d\.\d[^|]* \| \d{4}-\d\d-\d\d \| [^|]+ \|$/gm,
  );
  expect(Array.from(rows, ([, name]) => `${name}.sh`).sort()).toEqual(scripts.sort());
});

test.each(scripts)('%s states a guess and what is so, works in a temporary folder, and compares its output', (file) => {
  const text = readFileSync(join(FOLDER, file), 'utf8');
  expect(text).toMatch(/^#!\/usr\/bin\/env bash\n(# .+\n)+# Guess: (.+\n)(# .+\n)*# So: /);
  expect(text).toMatch(/\nset -euo pipefail\ndir=\$\(mktemp -d\)\n/);
  expect(text).toMatch(/rm -rf "\$dir"' EXIT\ncd "\$dir"\n/);
  expect(text).toMatch(/\ndiff - seen <<'EOF'\n/);
});
