import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { generatedPages } from '../../docs/generate.ts';
import { loadRules } from '../../src/rules/load.ts';
import { startWeir, type Weir } from '../helpers/weir.ts';

const PROJECT = fileURLToPath(new URL('../..', import.meta.url));
const readme = readFileSync(join(PROJECT, 'README.md'), 'utf8');

/** The fenced blocks of the README in order: language and text. */
const blocks = Array.from(readme.matchAll(/^```(\w+)\n(.*?)^```/gms), ([, language = '', text = '']) => ({
  language,
  text,
}));

/** Each command that is followed by what it prints. */
const shown = blocks.flatMap(({ language, text }, at) => {
  const next = blocks[at + 1];
  return language === 'sh' && (next?.language === 'text' || next?.language === 'json')
    ? [[text.trim(), next.text] as const]
    : [];
});

describe('README', () => {
  let weir: Weir;
  beforeAll(async () => {
    weir = await startWeir();
  });
  afterAll(() => weir.stop());

  /** The text with the ports that the README shows in place of the test's. */
  const withPorts = (text: string) =>
    text
      .replaceAll(`127.0.0.1:${weir.grpcPort}`, '0.0.0.0:8081')
      .replaceAll(`127.0.0.1:${weir.httpPort}`, '0.0.0.0:8080')
      .replaceAll(`127.0.0.1:${weir.debugPort}`, '0.0.0.0:6070')
      .replaceAll(`localhost:${weir.debugPort}`, 'localhost:6070')
      .replace(` --target localhost:${weir.grpcPort}`, '');

  test('shows the commands that this file knows how to run', () => {
    expect(shown.map(([command]) => command.split(' ').slice(0, 3).join(' '))).toEqual([
      'npm ci &&',
      'npx weir ask',
      'npx weir ask',
    ]);
  });

  test('fits on a few screens', () => expect(readme.split('\n').length).toBeLessThanOrEqual(200));

  test('npm start prints what it shows', () => {
    expect(withPorts(weir.output())).toBe(shown[0]?.[1]);
  });

  test.each(shown.slice(1))('%s', async (command, printed) => {
    const here = `${command} --target localhost:${weir.grpcPort}`;
    const { stdout } = await promisify(execFile)('bash', ['-c', here], { cwd: PROJECT });
    expect(stdout).toBe(printed);
  });

  test.each(blocks.filter(({ language }) => language === 'yaml').map(({ text }) => [text]))(
    'these rules load: %s',
    (text) => {
      const folder = mkdtempSync(join(tmpdir(), 'readme-'));
      const path = join(folder, 'rules.yaml');
      writeFileSync(path, text);
      expect(loadRules([{ path, name: 'rules.yaml' }], { mergeDomains: false })).toMatchObject({
        ok: true,
        warnings: [],
      });
      rmSync(folder, { recursive: true });
    },
  );

  test('links lead to files that exist', () => {
    const links = Array.from(readme.matchAll(/\]\((?!https?:)([^)#]+)/g), ([, path = '']) => join(PROJECT, path));
    expect(links.length).toBeGreaterThan(5);
    for (const path of links) expect(() => readFileSync(path)).not.toThrow(/ENOENT/);
  });
});

test.each([...generatedPages])('%s is what npm run docs writes', (path, text) => {
  expect(readFileSync(join(PROJECT, path), 'utf8')).toBe(text);
});
