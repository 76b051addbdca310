import { cpSync, readFileSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildAll } from '../../deploy/build.ts';
import { applyChange } from '../mutants/mutants.ts';
import { faults } from './faults.ts';

/** Builds the service with a fault: `build-fault.ts WHAT FOLDER`. */

const PROJECT = fileURLToPath(new URL('../..', import.meta.url));
const [, , what, folder = ''] = process.argv;
const fault = faults.find((one) => one.what === what);
if (!fault) throw new Error(`there is no fault '${what}'`);

const dist = join(folder, 'dist');
cpSync(join(PROJECT, 'dist'), dist, { recursive: true });
for (const name of ['package.json', 'proto', 'config']) symlinkSync(join(PROJECT, name), join(folder, name));
const path = join(PROJECT, fault.file);
const contents = applyChange(readFileSync(path, 'utf8'), fault.change);
await buildAll(dist, [
  {
    name: 'a fault',
    setup({ onLoad }) {
      onLoad({ filter: /\.ts$/ }, (one) => (one.path === path ? { contents, loader: 'ts' } : undefined));
    },
  },
]);
