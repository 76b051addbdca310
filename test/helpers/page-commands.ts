import { execFile } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { grpcurl } from './tools.ts';
import { MAIN, startWeir, type Weir } from './weir.ts';

const PROJECT = fileURLToPath(new URL('../..', import.meta.url));

/** A fenced block of a page. */
export interface PageBlock {
  readonly language: string;
  readonly text: string;
}

export const blocksOf = (page: string): readonly PageBlock[] =>
  Array.from(page.matchAll(/^```(\w+)\n(.*?)^```/gms), ([, language = '', text = '']) => ({ language, text }));

/** The files that a page shows: YAML whose first line is a comment with the file's name. */
export const filesOf = (page: string): ReadonlyMap<string, string> =>
  new Map(
    blocksOf(page).flatMap(({ language, text }) => {
      const [, name] = /^# ([\w-]+\.yaml)$/m.exec(text.slice(0, text.indexOf('\n'))) ?? [];
      return language === 'yaml' && name !== undefined ? [[name, text] as const] : [];
    }),
  );

/** Without times, levels of buckets and what names the rules: they differ from run to run. */
export const lasting = (text: string): string =>
  text
    .replace(/[\d.]+ \+ (\d+) = [\d.]+ /g, '… + $1 = … ')
    .replace(/\d+ used, \d+ left/g, '… used, … left')
    .replace(/\d+(\.\d+)? (s|ms|min|h)\b/g, '… s')
    .replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME')
    .replace(/"\d+s"/g, '"…s"')
    .replace(/^rules \S+/gm, 'rules …');

/** A command of a page: what the page says that it prints, and what it has printed. */
export interface RanCommand {
  readonly command: string;
  /** Undefined: the page does not show it. */
  readonly shown: string | undefined;
  readonly printed: string;
}

/** The admin commands take the debug port, `ask` the gRPC port; all others need no service. */
const SHIM = `#!/bin/sh
shift
case $1 in
  ask) set -- "$@" --target "localhost:$WEIR_GRPC" ;;
  unmatched|top|refusals|get|reset|grant|override|audit) set -- "$@" --target "localhost:$WEIR_DEBUG" ;;
  explain) case " $* " in *" --rules "*) ;; *) set -- "$@" --target "localhost:$WEIR_DEBUG" ;; esac ;;
esac
exec "${process.execPath}" "${MAIN}" "$@"
`;

/**
 * Runs the commands of a page of docs/ one after the other, in a folder with the files that it shows. A command that
 * starts the service starts it on free ports; it runs until the next one, or the end.
 */
export async function runPage(path: string): Promise<readonly RanCommand[]> {
  const page = readFileSync(join(PROJECT, path), 'utf8');
  const folder = mkdtempSync(join(tmpdir(), 'page-'));
  for (const [name, text] of filesOf(page)) writeFileSync(join(folder, name), text);
  mkdirSync(join(folder, 'bin'));
  writeFileSync(join(folder, 'bin/npx'), SHIM);
  chmodSync(join(folder, 'bin/npx'), 0o755);
  const PATH = [join(folder, 'bin'), dirname(await grpcurl()), process.env.PATH].join(delimiter);
  const ran: RanCommand[] = [];
  let weir: Weir | undefined;
  try {
    const blocks = blocksOf(page);
    for (const [at, { language, text }] of blocks.entries()) {
      if (language !== 'sh') continue;
      if (/npx weir serve|npm start/.test(text)) {
        await weir?.stop();
        weir = await serviceOf(text, folder);
        continue;
      }
      const next = blocks[at + 1];
      const shown = next && ['text', 'json'].includes(next.language) ? next.text : undefined;
      ran.push({ command: text, shown, printed: await outputOf(text, { weir, folder, PATH }) });
    }
  } finally {
    await weir?.stop();
    rmSync(folder, { recursive: true });
  }
  return ran;
}

/** `NAME=value npx weir serve --rules rules.yaml`, started. */
function serviceOf(command: string, folder: string): Promise<Weir> {
  const [, assignments = '', flags = ''] = /((?:\w+=\S+ )*)(?:npx weir serve|npm start)(.*)/.exec(command) ?? [];
  const env = Object.fromEntries(
    Array.from(assignments.matchAll(/(\w+)=(\S+)/g), ([, name = '', value = '']) => [name, value]),
  );
  const args = flags.trim().split(' ').filter(Boolean);
  return startWeir({ USE_STATSD: 'false', ...env }, { args, cwd: args.length > 0 ? folder : PROJECT });
}

interface Place {
  readonly weir: Weir | undefined;
  readonly folder: string;
  readonly PATH: string;
}

/** What a command prints on its standard output; its errors where it prints nothing there. */
async function outputOf(command: string, { weir, folder, PATH }: Place): Promise<string> {
  const ports = { WEIR_GRPC: String(weir?.grpcPort), WEIR_DEBUG: String(weir?.debugPort) };
  const here = command
    .replaceAll('localhost:8081', `localhost:${weir?.grpcPort}`)
    .replaceAll('localhost:8080', `localhost:${weir?.httpPort}`)
    .replaceAll('localhost:6070', `localhost:${weir?.debugPort}`);
  const env = { PATH, HOME: process.env.HOME, NO_COLOR: '1', ...ports };
  const { stdout, stderr } = await promisify(execFile)('bash', ['-c', here], { cwd: folder, env }).catch(
    (error: { readonly stdout: string; readonly stderr: string }) => error,
  );
  const printed = stdout === '' ? stderr : stdout;
  return printed.endsWith('\n') ? printed : `${printed}\n`;
}

/** The page with what its commands have printed. */
export function withOutput(path: string, ran: readonly RanCommand[]): string {
  let page = readFileSync(join(PROJECT, path), 'utf8');
  for (const { command, shown, printed } of ran) {
    if (shown === undefined) continue;
    const at = page.indexOf(`\`\`\`sh\n${command}`);
    const from = page.indexOf(shown, page.indexOf('```', at + command.length + 6) + 3);
    page = page.slice(0, from) + printed + page.slice(from + shown.length);
  }
  return page;
}
