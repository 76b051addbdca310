import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Client, clients } from './clients.ts';

const FOLDER = fileURLToPath(new URL('../../.cache/clients', import.meta.url));
const WEIR_FETCH = fileURLToPath(new URL('../../client/dist/fetch.js', import.meta.url));

/** A command that sends one request to each URL that follows, and prints a URL when its request has ended. */
export interface Command {
  readonly file: string;
  readonly args: readonly string[];
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** Installs the packages of all clients into .cache/clients, unless these are there. */
export function installClients(): void {
  const packages = JSON.stringify(clients, undefined, 2);
  const stamp = join(FOLDER, 'installed.json');
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === packages) return;
  mkdirSync(FOLDER, { recursive: true });
  const run = (file: string, ...args: string[]) =>
    execFileSync(file, args, { cwd: FOLDER, stdio: ['ignore', 'ignore', 'inherit'] });
  writeFileSync(join(FOLDER, 'package.json'), '{ "private": true }');
  run('npm', 'install', '--no-save', '--no-audit', '--no-fund', ...packagesOf('node'));
  run('python3', '-m', 'venv', 'python');
  run('python/bin/pip', 'install', '--quiet', '--disable-pip-version-check', ...packagesOf('python'));
  writeFileSync(join(FOLDER, 'go.mod'), 'module clients\n');
  writeFileSync(join(FOLDER, 'main.go'), goProgram());
  run('go', 'get', ...packagesOf('go'));
  run('go', 'build', '-o', 'go-clients', 'main.go');
  writeFileSync(stamp, packages);
}

const packagesOf = (language: Client['language']): string[] => [
  ...new Set(clients.flatMap((client) => (client.language === language ? client.packages : []))),
];

/** The command that runs the code of a client. */
export function commandOf({ language, name, code }: Client): Command {
  const at = { cwd: FOLDER, env: { ...process.env, WEIR_FETCH } };
  if (language === 'go') return { ...at, file: join(FOLDER, 'go-clients'), args: [name] };
  if (language === 'python')
    return { ...at, file: join(FOLDER, 'python/bin/python'), args: ['-c', pythonProgram(code)] };
  return { ...at, file: process.execPath, args: ['--input-type=module', '-e', nodeProgram(code), '--'] };
}

const nodeProgram = (code: string): string => `
  async function send(url) {
    ${code}
  }
  for (const url of process.argv.slice(1))
    send(url).catch((error) => console.error(error)).then(() => console.log(url));`;

const pythonProgram = (code: string): string => `
import sys, threading, traceback
def send(url):
    ${code.replaceAll('\n', '\n    ')}
def run(url):
    try: send(url)
    except Exception: traceback.print_exc()
    print(url, flush=True)
for url in sys.argv[1:]: threading.Thread(target=run, args=(url,)).start()`;

function goProgram(): string {
  const ofGo = clients.filter(({ language }) => language === 'go');
  const paths = ofGo.flatMap(({ packages }) => packages.map((one) => `\t"${one.split('@')[0]}"`));
  const cases = ofGo.map(({ name, code }) => `\tcase "${name}":\n\t${code}`);
  return `package main

import (
	"fmt"
	"os"
	"sync"

${paths.join('\n')}
)

func send(name, url string) {
	switch name {
${cases.join('\n')}
	}
}

func main() {
	var all sync.WaitGroup
	for _, url := range os.Args[2:] {
		all.Add(1)
		go func() { send(os.Args[1], url); fmt.Println(url); all.Done() }()
	}
	all.Wait()
}
`;
}
