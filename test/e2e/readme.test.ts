import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { generatedPages } from '../../docs/generated-pages.ts';
import { scalingPage } from '../../docs/scaling-page.ts';
import { loadText } from '../helpers/rules.ts';
import { startWeir, type Weir } from '../helpers/weir.ts';

const PROJECT = fileURLToPath(new URL('../..', import.meta.url));
const readme = readFileSync(join(PROJECT, 'README.md'), 'utf8');

/** The fenced blocks of the README in order: language and text. */
const blocks = Array.from(readme.matchAll(/^```(\w+)\n(.*?)^```/gms), ([, language = '', text = '']) => ({
  language,
  text,
}));

/** The output of `npm start` in the README. test/docs/page-runs.test.ts runs the other commands. */
const banner = blocks.find(({ text }) => text.startsWith('Weir '))?.text;

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
      .replace(' --target localhost:6070', '')
      .replace(/(?<=#token=)[\w-]+/, /(?<=#token=)[\w-]+/.exec(String(banner))?.[0] ?? '');

  test('fits on a few screens', () => expect(readme.split('\n').length).toBeLessThanOrEqual(200));

  test('shows the output of npm start', () => {
    expect(withPorts(weir.output())).toBe(banner);
  });

  test.each(blocks.filter(({ language }) => language === 'yaml').map(({ text }) => [text]))(
    'these rules load: %s',
    (text) => expect(loadText(text)).toMatchObject({ ok: true, warnings: [] }),
  );
});

test.each([...generatedPages])('%s is the output of npm run docs', (path, text) => {
  expect(readFileSync(join(PROJECT, path), 'utf8')).toBe(text);
});

test('docs/scaling.md follows from the newest results', async () => {
  expect(readFileSync(join(PROJECT, 'docs/scaling.md'), 'utf8')).toBe(await scalingPage());
});
