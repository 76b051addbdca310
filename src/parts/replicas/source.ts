import { lookup } from 'node:dns/promises';
import { readFile, stat } from 'node:fs/promises';
import { every } from '../../base/clock.ts';
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
  readonly #place: ReplicaPlace;
  readonly #read: Read;
  readonly #state: Pick<WorkState, 'works' | 'failed'>;
  #readings: readonly number[] = [];

  constructor(place: ReplicaPlace, read: Read, state: Pick<WorkState, 'works' | 'failed'>) {
    this.#place = place;
    this.#read = read;
    this.#state = state;
  }

  /** Undefined until it has been read. While reading fails, the last number counts. */
  get count(): number | undefined {
    return this.#readings.length === 0 ? undefined : Math.max(...this.#readings);
  }

  async read(): Promise<void> {
    try {
      const found = await this.#read(this.#place);
      this.#readings = [...this.#readings, found].slice(-READINGS);
      this.#state.works();
    } catch (error) {
      this.#state.failed(error);
    }
  }
}

/** Reads the numbers of replicas that rules ask for, repeatedly. */
export class Replicas implements ReplicaSource {
  readonly #places = new Map<string, Place>();
  readonly #background: Pick<ProcessContext['background'], 'add'>;
  readonly #read: Read;
  readonly #stop: () => void;
  #fresh: Place[] = [];
  #isReading = false;
  revision = 0;

  constructor({ background }: { readonly background: Pick<ProcessContext['background'], 'add'> }, read = readReplicas) {
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
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, FIRST_MS);
    });
    await Promise.race([Promise.all(fresh.map((place) => place.read())), late]);
    clearTimeout(timer);
    return fresh.some(({ count }) => count !== undefined);
  }

  /** Reads all numbers once. */
  async readAll(): Promise<void> {
    if (this.#isReading) return;
    this.#isReading = true;
    const numbers = (): string => Array.from(this.#places.values(), ({ count }) => count).join();
    const before = numbers();
    await Promise.all(Array.from(this.#places.values(), (place) => place.read()));
    if (numbers() !== before) this.revision++;
    this.#isReading = false;
  }

  close(): void {
    this.#stop();
  }
}

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
