import { execFile } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { type Envoy, startEnvoy } from '../envoy.ts';
import { ghz, grpcurl } from '../tools.ts';
import { MAIN, startWeir, type Weir } from '../weir.ts';
import { leavesOut } from './exceptions.ts';
import { blocksOf, filesOf, isShell, type PageBlock, PROJECT, textOf } from './page.ts';
import { commandsIn } from './shell.ts';

/** What the reader of a page needs besides the page. */
export interface PageSetup {
  /** Contents by name; files that the page shows need no entry. */
  readonly files?: Readonly<Record<string, string>>;
  /** The command that has started the service; absent: the page starts it, or needs none. */
  readonly service?: string;
  readonly env?: Readonly<Record<string, string>>;
  /**
   * Scripts by a text of the block before which they run, for example to send traffic. If the block starts the service,
   * they run after that.
   */
  readonly before?: Readonly<Record<string, string>>;
}

/** The text without times, bucket levels and the identity of rules, which differ from run to run. */
export const lasting = (text: string): string =>
  text
    .replace(/[\d.]+ \+ (\d+) = [\d.]+ /g, '… + $1 = … ')
    .replace(/\d+ used, \d+ left/g, '… used, … left')
    .replace(/(OVER_LIMIT +free rate: .*), \d remaining/g, '$1, … remaining')
    .replace(/\d+(\.\d+)? (s|ms|min|h)\b( \d+ (s|min|h)\b)*/g, '… s')
    .replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME')
    .replace(/"\d+s"/g, '"…s"')
    .replace(/^rules \S+/gm, 'rules …');

/** Commands of a page with the output that the page shows and the output that they printed. */
export interface RanCommand {
  readonly command: string;
  /** Undefined: the page shows no output. */
  readonly shown: string | undefined;
  readonly printed: string;
  /** Exit code of the first command that failed, else 0. */
  readonly code: number;
  /** All that was printed, for the message of a test that fails. */
  readonly everything: string;
}

const SHIM = `#!/bin/sh
shift
exec "${process.execPath}" "${MAIN}" "$@"
`;

const SERVICE = /((?:\w+=\S+ )*)(?:npx weir serve|npm start)(.*)/;
const ENVOY = /^envoy -c envoy\.yaml$/;
const RUNNABLE = new Set(['curl', 'grpcurl', 'ghz', 'zcat', 'gzip', 'head', 'sort', 'uniq', 'echo', 'export']);

/** Whether runPage runs a block: if it needs only the service, the page's files, and Envoy with envoy.yaml. */
export function isRunnable({ text }: Pick<PageBlock, 'text'>): boolean {
  const lines = logicalLines(text).filter((line) => !SERVICE.test(line) && !ENVOY.test(line));
  return commandsIn(lines.join('\n')).every(({ words }) => {
    const [program = '', argument] = words;
    const isElsewhere = program === 'curl' && !words.some((word) => word.startsWith('localhost:'));
    return (program === 'npx' && argument === 'weir') || (RUNNABLE.has(program) && !isElsewhere);
  });
}

/** The lines of a script. A line that ends with a backslash or inside quotes is joined with the next. */
function logicalLines(text: string): readonly string[] {
  const isLoop = /^for /.test(text);
  const joined: string[] = [];
  for (const line of isLoop ? [text.trimEnd()] : text.split('\n')) {
    const open = joined.at(-1);
    const isOpen = open !== undefined && (open.endsWith('\\') || (open.match(/'/g) ?? []).length % 2 === 1);
    if (isOpen) joined.splice(-1, 1, `${open}\n${line}`);
    else if (line.trim() !== '') joined.push(line);
  }
  return joined;
}

/**
 * Runs the commands of a page in order, in a folder with the files that the page shows. A command that starts the
 * service uses free ports; the service runs until the next such command or the end.
 */
export async function runPage(path: string, setup: PageSetup = {}): Promise<readonly RanCommand[]> {
  const page = textOf(path);
  const reader = await Reader.withFiles({ ...Object.fromEntries(filesOf(page)), ...setup.files }, setup.env);
  const ran: RanCommand[] = [];
  try {
    if (setup.service !== undefined) await reader.serve(setup.service);
    const blocks = blocksOf(page);
    for (const [at, block] of blocks.entries()) {
      if (!isShell(block) || !isRunnable(block) || leavesOut(path, block.text)) continue;
      const { text } = block;
      const lines = logicalLines(text);
      for (const line of lines) {
        if (SERVICE.test(line)) await reader.serve(line);
        else if (ENVOY.test(line)) await reader.startEnvoy();
      }
      for (const [part, script] of Object.entries(setup.before ?? {}))
        if (text.includes(part)) await reader.prepare(script);
      const command = lines.filter((line) => !SERVICE.test(line) && !ENVOY.test(line)).join('\n');
      if (command === '') continue;
      const next = blocks[at + 1];
      const shown = next && ['text', 'json'].includes(next.language) ? next.text : undefined;
      ran.push({ command: `${command}\n`, shown, ...(await reader.run(command)) });
    }
  } finally {
    await reader.leave();
  }
  return ran;
}

/** The state of a reader: a folder with files, started processes, and exported variables. */
class Reader {
  readonly #folder: string;
  readonly #env: Record<string, string | undefined>;
  #weir: Weir | undefined;
  #envoy: Envoy | undefined;

  private constructor(folder: string, env: Record<string, string | undefined>) {
    this.#folder = folder;
    this.#env = env;
  }

  static async withFiles(files: Readonly<Record<string, string>>, env = {}): Promise<Reader> {
    const folder = mkdtempSync(join(tmpdir(), 'page-'));
    for (const [name, text] of Object.entries({ ...files, 'bin/npx': SHIM })) {
      mkdirSync(dirname(join(folder, name)), { recursive: true });
      writeFileSync(join(folder, name), text);
    }
    chmodSync(join(folder, 'bin/npx'), 0o755);
    const tools = await Promise.all([grpcurl(), ghz()]);
    const PATH = [join(folder, 'bin'), ...tools.map(dirname), process.env.PATH].join(delimiter);
    return new Reader(folder, { PATH, HOME: process.env.HOME, TMPDIR: process.env.TMPDIR, NO_COLOR: '1', ...env });
  }

  /** `NAME=value npx weir serve --rules rules.yaml`: runs in the folder if it has arguments, else in the project. */
  async serve(command: string): Promise<void> {
    const [, assignments = '', flags = ''] = SERVICE.exec(this.#here(command)) ?? [];
    const env = Object.fromEntries(
      Array.from(assignments.matchAll(/(\w+)=(\S+)/g), ([, name = '', value = '']) => [name, value]),
    );
    const args = flags.trim().split(' ').filter(Boolean);
    await this.#weir?.stop();
    const cwd = args.length > 0 ? this.#folder : PROJECT;
    this.#weir = await startWeir({ USE_STATSD: 'false', ...env }, { args, cwd });
  }

  async startEnvoy(): Promise<void> {
    await this.#envoy?.stop();
    this.#envoy = await startEnvoy(this.#weir?.grpcPort ?? 0);
  }

  /** @throws Error  the script failed, so the page cannot be run */
  async prepare(script: string): Promise<void> {
    const { code, everything } = await this.run(script);
    if (code !== 0) throw new Error(`${script}\nended with ${code}: ${everything}`);
  }

  /** Runs commands. `printed` is their standard output, or their standard error if that is empty. */
  async run(command: string): Promise<Pick<RanCommand, 'printed' | 'code' | 'everything'>> {
    for (const [, name = '', value = ''] of command.matchAll(/^export (\w+)=(\S+)$/gm)) this.#env[name] = value;
    const ports = { WEIR_TARGET: `localhost:${this.#weir?.debugPort}` };
    const options = { cwd: this.#folder, env: { ...this.#env, ...ports } };
    const { stdout, stderr, code } = await promisify(execFile)('bash', ['-ec', this.#here(command)], options).then(
      (ended) => ({ ...ended, code: 0 }),
      (error: { readonly stdout: string; readonly stderr: string; readonly code: number }) => error,
    );
    const printed = stdout === '' ? stderr : stdout;
    return {
      printed: printed.endsWith('\n') ? printed : `${printed}\n`,
      code,
      everything: stdout + stderr,
    };
  }

  async leave(): Promise<void> {
    await this.#envoy?.stop();
    await this.#weir?.stop();
    rmSync(this.#folder, { recursive: true });
  }

  /** Replaces ports by those of this service and Envoy, and the folder of a deployed service by this one. */
  #here(command: string): string {
    const [weir, envoy] = [this.#weir, this.#envoy];
    return command
      .replaceAll('localhost:8081', `localhost:${weir?.grpcPort}`)
      .replaceAll('localhost:8080', `localhost:${weir?.httpPort}`)
      .replaceAll('localhost:6070', `localhost:${weir?.debugPort}`)
      .replaceAll(/localhost:(1000[0-3])\b/g, (_, port) => `localhost:${envoy?.portOf(port)}`)
      .replaceAll('/var/lib/weir', this.#folder);
  }
}

/** The page with the output that its commands printed. */
export function withOutput(path: string, ran: readonly RanCommand[]): string {
  let page = textOf(path);
  for (const { command, shown, printed } of ran) {
    if (shown === undefined) continue;
    const at = page.indexOf(`\`\`\`sh\n${command}`);
    const from = page.indexOf(shown, page.indexOf('```', at + command.length + 6) + 3);
    page = page.slice(0, from) + printed + page.slice(from + shown.length);
  }
  return page;
}
