import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

const PROJECT = fileURLToPath(new URL('..', import.meta.url));

interface TypesOptions {
  /** The configuration of TypeScript, or its folder. */
  readonly project: string;
  /** The modules whose types are written, relative to `source`. */
  readonly entries: readonly string[];
  /** The folder of the sources, relative to the root of the project. */
  readonly source: string;
  /** Where the declarations are written. */
  readonly folder: string;
}

/**
 * Writes the declarations that the entries need, with imports changed to the built modules.
 *
 * @throws Error  a declaration imports one outside `source`
 */
export function writeTypes({ project, entries, source: sources, folder }: TypesOptions): void {
  const made = mkdtempSync(join(tmpdir(), 'types-'));
  try {
    const tsc = join(PROJECT, 'node_modules/typescript/bin/tsc');
    execFileSync(process.execPath, [tsc, '-p', project, '--emitDeclarationOnly', '--outDir', made], {
      stdio: 'inherit',
    });
    const source = join(made, sources);
    const waiting = entries.map((name) => join(source, `${name}.d.ts`));
    const written = new Set<string>();
    for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
      if (written.has(path)) continue;
      written.add(path);
      const text = readFileSync(path, 'utf8');
      const target = join(folder, relative(source, path));
      mkdirSync(dirname(target), { recursive: true });
      writeFileSync(target, text.replaceAll(RELATIVE_IMPORT, '$1$2$3.js$2'));
      for (const [, , , name] of text.matchAll(RELATIVE_IMPORT)) waiting.push(join(dirname(path), `${name}.d.ts`));
    }
    const outside = [...written].find((path) => relative(source, path).startsWith('..') || !existsSync(path));
    if (outside !== undefined) throw new Error(`the types of ${sources} lead to ${outside}`);
  } finally {
    rmSync(made, { recursive: true });
  }
}

/** Also those in types that TypeScript infers: `import("./limit.ts").Limit`. */
const RELATIVE_IMPORT = /(from |import\()(['"])(\.[^'"]+)\.ts\2/g;
