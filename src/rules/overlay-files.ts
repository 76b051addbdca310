import { readFile, stat } from 'node:fs/promises';
import { listFiles, type RuleSource } from './files.ts';
import type { CheckedRules, RuleFileState } from './load.ts';
import { checkOverlay, type OverlayFile } from './overlay.ts';
import type { Problem } from './problem.ts';

/** What overlay files say at one time, or why they cannot be read. */
export type OverlayVersion = { readonly files: readonly OverlayFile[] } | { readonly problems: readonly Problem[] };

/** What came of checking rules with an overlay that may have changed. */
export interface OverlaidCheck {
  /**
   * To be put in force: with the newest overlay, or with the last one that was right where the newest is not.
   * Undefined: neither goes with the rules.
   */
  readonly right: Extract<CheckedRules, { ok: true }> | undefined;
  /** What is wrong with the newest. */
  readonly wrong: Extract<CheckedRules, { ok: false }> | undefined;
  /**
   * Why nothing is right: what is wrong with the rules, and where they do not go with the last overlay that was right.
   */
  readonly refusal: readonly Problem[];
}

type Check = (overlay: readonly OverlayFile[]) => Promise<CheckedRules>;

/**
 * An overlay that is read again whenever its files change. A wrong one changes nothing: rules are then checked with the
 * last one that was right.
 *
 * The files are polled, as rule files are.
 */
export class Overlay {
  readonly description: string;
  readonly #source: RuleSource;
  readonly #listeners = new Set<() => void>();
  readonly #timer: NodeJS.Timeout;
  #state: string | undefined;
  #revision = 0;
  #newest: OverlayVersion = { problems: [] };
  #lastRight: OverlayVersion | undefined;
  #isPolling = false;

  private constructor(source: RuleSource, pollIntervalMs: number) {
    this.description = source.description;
    this.#source = source;
    this.#timer = setInterval(() => void this.#poll(), pollIntervalMs);
    this.#timer.unref();
  }

  /** Resolves once the files have been read, right or wrong. */
  static async open(source: RuleSource, pollIntervalMs: number): Promise<Overlay> {
    const overlay = new Overlay(source, pollIntervalMs);
    await overlay.#poll();
    if (overlay.problems.length === 0) overlay.#lastRight = overlay.#newest;
    return overlay;
  }

  /** What is wrong with the newest files, whatever the rules; warnings are left out. */
  get problems(): readonly Problem[] {
    const problems = 'files' in this.#newest ? checkOverlay(this.#newest.files) : this.#newest.problems;
    return problems.filter(({ severity }) => severity === 'error');
  }

  /** The newest files; none where they cannot be read. */
  get files(): readonly OverlayFile[] {
    return 'files' in this.#newest ? this.#newest.files : [];
  }

  /** Another one whenever the newest files may say something else. */
  get revision(): number {
    return this.#revision;
  }

  /** Calls back after each change of the files. */
  onChange(listener: () => void): void {
    this.#listeners.add(listener);
  }

  /** Checks rules with the newest overlay, and with the last one that was right where that fails. */
  async check(run: Check): Promise<OverlaidCheck> {
    const [newest, lastRight] = [this.#newest, this.#lastRight];
    const checked = await checkWith(newest, run);
    if (checked.ok) {
      this.#lastRight = newest;
      return { right: checked, wrong: undefined, refusal: [] };
    }
    if (!lastRight || lastRight === newest) return { right: undefined, wrong: checked, refusal: checked.problems };
    const before = await checkWith(lastRight, run);
    if (before.ok) return { right: before, wrong: checked, refusal: [] };
    return { right: undefined, wrong: checked, refusal: before.problems };
  }

  close(): void {
    clearInterval(this.#timer);
  }

  async #poll(): Promise<void> {
    if (this.#isPolling) return;
    this.#isPolling = true;
    try {
      const { state, read } = await listOverlay(this.#source);
      const isKnown = state === this.#state;
      if (isKnown && 'files' in this.#newest) return;
      const newest = await read();
      if (isKnown && 'problems' in newest) return; // still unreadable
      this.#newest = newest;
      this.#state = state;
      this.#revision++;
      for (const listener of this.#listeners) listener();
    } finally {
      this.#isPolling = false;
    }
  }
}

/** Checks rules, with an overlay where there is one. */
export async function checkOverlaid(overlay: Overlay | undefined, run: Check): Promise<OverlaidCheck> {
  if (overlay) return overlay.check(run);
  const checked = await run([]);
  if (checked.ok) return { right: checked, wrong: undefined, refusal: [] };
  return { right: undefined, wrong: checked, refusal: checked.problems };
}

/** Reads overlay files once. */
export async function readOverlayFiles(source: RuleSource): Promise<OverlayVersion> {
  const { read } = await listOverlay(source);
  return read();
}

const checkWith = async (version: OverlayVersion, run: Check): Promise<CheckedRules> =>
  'files' in version ? run(version.files) : { ok: false, problems: version.problems };

interface Listing {
  /** Differs whenever the files may. */
  readonly state: string;
  read(): Promise<OverlayVersion>;
}

async function listOverlay(source: RuleSource): Promise<Listing> {
  const { files, state } = await listFiles(source);
  if (typeof files !== 'string') return { state, read: () => readAll(source.description, files) };
  return { state, read: async () => wrong(source.description, `cannot be read: ${files}`) };
}

/** All files together: they go to the thread that checks rules with each of its jobs. */
const MAX_OVERLAY_BYTES = 8 * 1024 * 1024;

async function readAll(description: string, files: readonly RuleFileState[]): Promise<OverlayVersion> {
  const read: OverlayFile[] = [];
  let bytes = 0;
  for (const { path, name } of files) {
    try {
      bytes += (await stat(path)).size;
      if (bytes > MAX_OVERLAY_BYTES)
        return wrong(description, `an overlay may have at most ${MAX_OVERLAY_BYTES} bytes, got more`);
      read.push({ name, text: utf8.decode(await readFile(path)) });
    } catch (error) {
      return wrong(name, `cannot be read: ${error instanceof Error ? error.message : error}`);
    }
  }
  return { files: read };
}

/** Throws where bytes are no UTF-8; takes a byte order mark away. */
const utf8 = new TextDecoder('utf-8', { fatal: true });

const wrong = (file: string, message: string): OverlayVersion => ({
  problems: [{ file, line: 1, path: '', severity: 'error', message }],
});
