import { execFile } from 'node:child_process';
import { mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { hasJava, mavenClasspath, xdsProtos } from '../helpers/client-languages.ts';
import { grpcurl } from '../helpers/tools.ts';
import { startWeir, type Weir } from '../helpers/weir.ts';

const PAGE = fileURLToPath(new URL('../../docs/clients.md', import.meta.url));
/** The rules of config/rules.yaml, but with a lower limit, and a window that does not end during a test. */
const RULES = `
domain: demo
descriptors:
  - {key: user, rate_limit: {unit: hour, requests_per_unit: 2, alignment: first_hit}}
`;
/** Pins the modules that the program imports. */
const GO_MODULE = fileURLToPath(new URL('../tools/control-plane', import.meta.url));

/** Blocks of the page by language. */
let blocks: ReadonlyMap<string, string>;
let page: string;
let folder: string;
let weir: Weir;

beforeAll(async () => {
  page = await readFile(PAGE, 'utf8');
  blocks = new Map(
    Array.from(page.matchAll(/^```(\w+)\n(.*?)^```/gms), ([, language = '', text = '']) => [language, text]),
  );
  folder = await mkdtemp(join(tmpdir(), 'clients-'));
  await writeFile(join(folder, 'rules.yaml'), RULES);
});
beforeEach(async () => {
  weir = await startWeir({ RULES_PATH: join(folder, 'rules.yaml'), BACKEND_TYPE: 'memory', USE_STATSD: 'false' });
});
afterEach(() => weir.stop());

/** A block with the address of this service, and a deadline for a busy machine. */
function programOf(language: string, [deadline, longer]: readonly [string, string]): string {
  const text = blocks.get(language) ?? '';
  expect(text).toContain('localhost:8081');
  expect(text).toContain(deadline);
  return text.replace('localhost:8081', `127.0.0.1:${weir.grpcPort}`).replace(deadline, longer);
}

const run = async (program: string, args: readonly string[], options = {}): Promise<string> =>
  (await promisify(execFile)(program, args, options)).stdout;

/** Runs a program three times with a limit of two, then without a service. */
async function expectDecisions(once: () => Promise<string>): Promise<void> {
  const printed: string[] = [];
  for (let time = 0; time < 3; time++) printed.push(await once());
  const lines = [1, 0].map((left) => `allowed=true rule=demo.user remaining=${left} wait=false\n`);
  expect(printed).toEqual([...lines, 'allowed=false rule=demo.user remaining=0 wait=true\n']);
  await weir.stop();
  expect(await once()).toContain('allowed=true rule= remaining=0 wait=false\n');
}

test('the program in Go decides, and passes requests without an answer', async () => {
  for (const name of ['go.mod', 'go.sum']) await writeFile(join(folder, name), await readFile(join(GO_MODULE, name)));
  await writeFile(join(folder, 'main.go'), programOf('go', ['250*time.Millisecond', '30*time.Second']));
  const binary = join(folder, 'client');
  await run('go', ['build', '-mod=mod', '-o', binary, '.'], { cwd: folder });
  await expectDecisions(() => run(binary, []));
});

test('the program in Python decides, and passes requests without an answer', async () => {
  const file = join(folder, 'client.py');
  await writeFile(file, programOf('python', ['timeout=0.250', 'timeout=30']));
  const env = { ...process.env, PYTHONPATH: await xdsProtos() };
  await expectDecisions(() => run('python3', [file], { env }));
});

const javaTest = hasJava() ? test : test.skip;
const javaTitle = hasJava() ? '' : ' (skipped: java and mvn are not on PATH)';
javaTest(
  `the program in Java decides, and passes requests without an answer${javaTitle}`,
  async () => {
    const classpath = await mavenClasspath(blocks.get('xml') ?? '');
    const file = join(folder, 'Main.java');
    await writeFile(file, programOf('java', ['250, TimeUnit.MILLISECONDS', '30, TimeUnit.SECONDS']));
    await run('javac', ['-cp', classpath, '-d', folder, file]);
    await expectDecisions(() => run('java', ['-cp', `${folder}:${classpath}`, 'Main']));
  },
  300_000,
);

test('the batch on the page has the answer that the page shows', async () => {
  const command = /^```sh\n(grpcurl .*?)^```/ms.exec(page)?.[1] ?? '';
  const text = command.replace('localhost:8081', `127.0.0.1:${weir.grpcPort}`).replace(/^grpcurl/, await grpcurl());
  const { answers } = JSON.parse(await run('sh', ['-c', text]));
  const detail = expect.objectContaining({ rule: 'demo.user', limit: 2, remaining: 1, source: 'backend' });
  expect(answers).toHaveLength(2);
  for (const { response } of answers) expect(response.dynamicMetadata.weir).toEqual(detail);
});
