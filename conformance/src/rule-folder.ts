import { renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Target } from './target.ts';

const POLL_MS = 25;
/** Longer than a server takes from listing the files to reading the last of them. */
const SETTLE_MS = 250;

/**
 * The folder from which the server reads its rules. Whether it has read them is seen from outside: each load adds a rule
 * with a limit of 0 under a new value, which refuses as soon as it is in force.
 */
export class RuleFolder {
  readonly #directory: string;
  readonly #target: Target;
  readonly #domain: string;
  readonly #limitMs: number;
  #generation = 0;
  #reloadMs = 0;

  constructor(directory: string, target: Target, options: { readonly run: string; readonly limitMs: number }) {
    this.#directory = directory;
    this.#target = target;
    this.#domain = `probe-${options.run}`;
    this.#limitMs = options.limitMs;
  }

  /** Writes and deletes files, and waits until their rules are in force. @returns whether they are */
  async load(files: Readonly<Record<string, string>>, gone: readonly string[] = []): Promise<boolean> {
    const startMs = Date.now();
    await this.#change(files, gone);
    const usual = this.#reloadMs === 0 ? this.#limitMs : 4 * this.#reloadMs + 1_000;
    const isLoaded = await this.#isLoaded(Math.min(usual, this.#limitMs));
    if (isLoaded) this.#reloadMs = Math.max(this.#reloadMs, Date.now() - startMs);
    return isLoaded;
  }

  /** Writes files that must not come into force. @returns whether they did, in more than the time of earlier loads */
  async comesIntoForce(files: Readonly<Record<string, string>>, gone: readonly string[] = []): Promise<boolean> {
    await this.#change(files, gone);
    return this.#isLoaded(1.5 * this.#reloadMs + 200);
  }

  /** Removes the kit's files. */
  remove(names: Iterable<string>): void {
    for (const name of [...names, 'probe.yaml']) rmSync(this.#pathTo(name), { force: true });
  }

  /** The probe comes last, so that a server which has it has listed the other files. */
  async #change(files: Readonly<Record<string, string>>, gone: readonly string[]): Promise<void> {
    for (const name of gone) rmSync(this.#pathTo(name), { force: true });
    for (const [name, text] of Object.entries(files)) this.#write(name, text);
    await sleep(SETTLE_MS);
    this.#generation++;
    const rule = `{ key: generation, value: "${this.#generation}", rate_limit: { unit: year, requests_per_unit: 0 } }`;
    const probe = `domain: ${this.#domain}\ndescriptors:\n  - ${rule}\n`;
    this.#write('probe.yaml', probe);
  }

  /** Renames a file into place, since a server may read it while it is written. */
  #write(name: string, text: string): void {
    const aside = join(this.#directory, '..', `.rls-conformance-${process.pid}`);
    writeFileSync(aside, text);
    renameSync(aside, this.#pathTo(name));
  }

  #pathTo(name: string): string {
    return join(this.#directory, `rls-conformance-${name.replaceAll('/', '-')}`);
  }

  async #isLoaded(limitMs: number): Promise<boolean> {
    const generation = String(this.#generation);
    const request = { domain: this.#domain, descriptors: [{ entries: [['generation', generation] as const] }] };
    for (const endMs = Date.now() + limitMs; ; await sleep(POLL_MS)) {
      const { overall_code: code } = await this.#target.decide(request);
      if (code === 'OVER_LIMIT') return true;
      if (Date.now() > endMs) return false;
    }
  }
}
