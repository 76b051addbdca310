import { lookup } from 'node:dns/promises';
import { readFile, stat } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { every } from '../../base/clock.ts';
import type { PackedRules } from '../../engine/rules/compile/packed.ts';
import type { CountReplicas, ReplicaPlace } from '../../engine/rules/compile/replicas.ts';
import type { ReplicaSource } from '../../engine/rules/reload/book.ts';
import type { WorkState } from '../../operate/observe/work-state.ts';
import type { ProcessContext } from '../../serve/parts/process-context.ts';

const INTERVAL_MS = 5_000;
/** The largest number of the last readings counts, so that a restart of replicas does not lower limits. */
const READINGS = 6;
/** Maximum number of places; further ones count as their `min`. */
const MAX_PLACES = 100;
/** How long rules wait for the first numbers. */
const FIRST_MS = 2_000;
const MAX_FILE_BYTES = 1_024 * 1_024;

type Read = (place: ReplicaPlace) => Promise<number>;

/** The number of replicas at one place, smoothed. */
class Place {
  /** Its name as in packed rules. */
  readonly written: string;
  readonly state: WorkState;
  readonly #read: () => Promise<number>;
  #readings: readonly number[] = [];
  #isReading = false;
  #isOverdue = false;

  constructor(place: ReplicaPlace, read: Read, state: WorkState) {
    this.written = JSON.stringify(place.name);
    this.state = state;
    this.#read = () => read(place);
  }

  /** Undefined until it has been read. While reading fails, the last number counts. */
  get count(): number | undefined {
    return this.#readings.length === 0 ? undefined : Math.max(...this.#readings);
  }

  /** Reads the number, unless the last reading has not ended. @returns whether the number has changed */
  async read(): Promise<boolean> {
    if (this.#isReading) {
      if (this.#isOverdue) this.state.failed('no answer yet');
      this.#isOverdue = true;
      return false;
    }
    const before = this.count;
    this.#isReading = true;
    try {
      const found = await this.#read();
      this.#readings = [...this.#readings, found].slice(-READINGS);
      this.state.works();
    } catch (error) {
      this.state.failed(error);
    }
    this.#isReading = false;
    this.#isOverdue = false;
    return this.count !== before;
  }
}

/** Reads the numbers of replicas that rules ask for, repeatedly. */
export class Replicas implements ReplicaSource {
  readonly #places = new Map<string, Place>();
  readonly #background: Pick<ProcessContext['background'], 'add' | 'remove'>;
  readonly #read: Read;
  readonly #stop: () => void;
  #fresh: Place[] = [];
  revision = 0;

  constructor({ background }: Pick<ProcessContext, 'background'>, read = readReplicas) {
    this.#background = background;
    this.#read = read;
    this.#stop = every(INTERVAL_MS, () => void this.readAll());
  }

  readonly count: CountReplicas = (place) => {
    const { kind, name } = place;
    const id = `${kind}:${name}`;
    const known = this.#places.get(id);
    if (known || this.#places.size >= MAX_PLACES) return known?.count;
    const state = this.#background.add(
      'replicas',
      `counting the replicas of ${kind === 'dns' ? name : `file ${name}`}`,
    );
    const added = new Place(place, this.#read, state);
    this.#places.set(id, added);
    this.#fresh.push(added);
    return undefined;
  };

  async learn(): Promise<boolean> {
    const fresh = this.#fresh;
    this.#fresh = [];
    if (fresh.length === 0) return false;
    let isLate = false;
    const reading = fresh.map(async (place) => {
      if ((await place.read()) && isLate) this.revision++;
    });
    await Promise.race([Promise.all(reading), sleep(FIRST_MS, undefined, { ref: false })]);
    isLate = true;
    return fresh.some(({ count }) => count !== undefined);
  }

  retain(rules: PackedRules): void {
    const named = new Set<string | undefined>();
    for (const { pieces } of rules)
      for (const piece of pieces) for (const [, written] of piece.matchAll(NAMES)) named.add(written);
    for (const [id, place] of this.#places) {
      if (named.has(place.written)) continue;
      this.#places.delete(id);
      this.#background.remove(place.state);
    }
  }

  /** Reads all numbers once; one that hangs delays no other. */
  async readAll(): Promise<void> {
    const follow = async (place: Place): Promise<void> => {
      if (await place.read()) this.revision++;
    };
    await Promise.all(Array.from(this.#places.values(), follow));
  }

  close(): void {
    this.#stop();
  }
}

/** The names of places in a piece of packed rules. */
const NAMES = /"(?:dns|file)":("(?:[^"\\]|\\.)*")/g;

const readReplicas: Read = ({ kind, name }) => (kind === 'dns' ? countAddresses(name) : countInFile(name));

/** The addresses of a name, of the family that has more: a replica may have one of each. */
async function countAddresses(name: string): Promise<number> {
  const found = await lookup(name, { all: true });
  const ofIpv6 = new Set(found.filter(({ family }) => family === 6).map(({ address }) => address)).size;
  const ofIpv4 = new Set(found.filter(({ family }) => family === 4).map(({ address }) => address)).size;
  return Math.max(ofIpv6, ofIpv4);
}

/** A number, or the number of lines that are neither empty nor comments. */
async function countInFile(path: string): Promise<number> {
  const found = await stat(path);
  if (!found.isFile() || found.size > MAX_FILE_BYTES)
    throw new Error(`${path} is not a file of at most ${MAX_FILE_BYTES} bytes`);
  const lines = (await readFile(path, 'utf8')).split('\n').flatMap((line) => line.replace(/#.*/, '').trim() || []);
  const [only = ''] = lines;
  return lines.length === 1 && /^\d+$/.test(only) ? Number(only) : lines.length;
}
