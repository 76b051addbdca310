import { every } from '../../../base/clock.ts';
import { overlays } from '../../../parts/rule-checks.ts';
import { decodeText, readBounded, TooManyBytes } from '../read/bounded-file.ts';
import type { OverlayFile } from '../read/overlaid.ts';
import { type Problem, Problems } from '../read/problem.ts';
import { listFiles, type RuleSource } from './files.ts';
import type { CheckedRules, RuleFileState } from './load.ts';

/** The overlay files at one time, or why they cannot be read. */
type OverlayVersion = { readonly files: readonly OverlayFile[] } | { readonly problems: readonly Problem[] };

/** The result of checking rules with an overlay that may have changed. */
export interface OverlaidCheck {
  /** Valid rules to apply: with the newest overlay, or else the last valid one. Undefined if both are invalid. */
  readonly valid: Extract<CheckedRules, { ok: true }> | undefined;
  readonly invalid: Extract<CheckedRules, { ok: false }> | undefined;
  /** Why no rules are valid: problems of the rules, and conflicts with the last valid overlay. */
  readonly refusal: readonly Problem[];
}

type Check = (overlay: readonly OverlayFile[]) => CheckedRules;

/**
 * An overlay that is read again whenever its files change. An invalid version has no effect: rules are then checked
 * with the last valid one. The files are polled, like rule files.
 */
export class Overlay {
  readonly description: string;
  readonly #source: RuleSource;
  readonly #listeners = new Set<() => void>();
  readonly #stop: () => void;
  #state: string | undefined;
  #revision = 0;
  #newest: OverlayVersion = { problems: [] };
  #lastValid: OverlayVersion | undefined;
  #isPolling = false;

  private constructor(source: RuleSource, pollIntervalMs: number) {
    this.description = source.description;
    this.#source = source;
    this.#stop = every(pollIntervalMs, () => void this.#poll());
  }

  /** Resolves once the files have been read, valid or not. */
  static async open(source: RuleSource, pollIntervalMs: number): Promise<Overlay> {
    const overlay = new Overlay(source, pollIntervalMs);
    await overlay.#poll();
    if (overlay.problems.length === 0) overlay.#lastValid = overlay.#newest;
    return overlay;
  }

  /** Errors in the newest files, independent of the rules; without warnings. */
  get problems(): readonly Problem[] {
    const found = new Problems('problems' in this.#newest ? this.#newest.problems : []);
    for (const layOver of Object.values(overlays)) layOver([], this.files, found);
    return found.all.filter(({ severity }) => severity === 'error');
  }

  get files(): readonly OverlayFile[] {
    return 'files' in this.#newest ? this.#newest.files : [];
  }

  /** Changes whenever the content of the newest files may have changed. */
  get revision(): number {
    return this.#revision;
  }

  onChange(listener: () => void): void {
    this.#listeners.add(listener);
  }

  /** Checks rules with the newest overlay and, if that fails, with the last valid one. */
  check(run: Check): OverlaidCheck {
    const [newest, lastValid] = [this.#newest, this.#lastValid];
    const checked = checkWith(newest, run);
    if (checked.ok) {
      this.#lastValid = newest;
      return { valid: checked, invalid: undefined, refusal: [] };
    }
    if (!lastValid || lastValid === newest) return { valid: undefined, invalid: checked, refusal: checked.problems };
    const before = checkWith(lastValid, run);
    if (before.ok) return { valid: before, invalid: checked, refusal: [] };
    return { valid: undefined, invalid: checked, refusal: before.problems };
  }

  close(): void {
    this.#stop();
    this.#listeners.clear();
  }

  async #poll(): Promise<void> {
    if (this.#isPolling) return;
    this.#isPolling = true;
    try {
      const { files, state } = await listFiles(this.#source);
      const isKnown = state === this.#state;
      if (isKnown && 'files' in this.#newest) return;
      const newest = readAll(this.#source.description, files);
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

/** Checks rules, with an overlay if there is one. */
export function checkOverlaid(overlay: Overlay | undefined, run: Check): OverlaidCheck {
  if (overlay) return overlay.check(run);
  const checked = run([]);
  if (checked.ok) return { valid: checked, invalid: undefined, refusal: [] };
  return { valid: undefined, invalid: checked, refusal: checked.problems };
}

/** Reads overlay files once; pipes, too: a shell may pass one to a command. */
export async function readOverlayFiles(source: RuleSource): Promise<OverlayVersion> {
  const { files } = await listFiles(source);
  return readAll(source.description, files, true);
}

const checkWith = (version: OverlayVersion, run: Check): CheckedRules =>
  'files' in version ? run(version.files) : { ok: false, problems: version.problems };

/** Of all files together. */
const MAX_OVERLAY_BYTES = 8 * 1024 * 1024;

/** @param files  or why they cannot be listed */
function readAll(description: string, files: readonly RuleFileState[] | string, isAnyKindRead = false): OverlayVersion {
  if (Object.keys(overlays).length === 0) return invalidVersion(description, 'this build cannot apply overlays');
  if (typeof files === 'string') return invalidVersion(description, `cannot be read: ${files}`);
  const read: OverlayFile[] = [];
  let bytes = 0;
  for (const { path, name } of files) {
    try {
      const content = readBounded(path, MAX_OVERLAY_BYTES - bytes, isAnyKindRead);
      bytes += content.length;
      read.push({ name, text: decodeText(content) });
    } catch (error) {
      if (error instanceof TooManyBytes)
        return invalidVersion(description, `an overlay may have at most ${MAX_OVERLAY_BYTES} bytes, got more`);
      return invalidVersion(name, `cannot be read: ${error instanceof Error ? error.message : error}`);
    }
  }
  return { files: read };
}

const invalidVersion = (file: string, message: string): OverlayVersion => ({
  problems: [{ file, line: 1, path: '', severity: 'error', message }],
});
