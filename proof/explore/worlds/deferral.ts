import type { Decision } from '../../../client/src/decision.ts';
import { Heads, PARK_MS } from '../../../client/src/deferral/heads.ts';
import type { Lines, QueueKeys } from '../../../client/src/deferral/lines.ts';
import { type TurnParts, Turns } from '../../../client/src/deferral/turns.ts';
import { EVERYTHING } from '../data-world.ts';
import { Hasher } from '../hasher.ts';
import { Runtime } from '../runtime.ts';
import type { Protocol, Step, World } from '../world.ts';

const LINE = 'line';
const TICK_MS = 1_000;

interface Job {
  readonly id: string;
  state: 'new' | 'delayed' | 'waiting' | 'active' | 'completed';
  dueMs: number;
  worker: number;
  stalls: number;
  attempts: number;
  starts: number;
  isAdmitted: boolean;
}

/** An operation in Redis, or a call of the service, that a process waits for. */
interface Operation {
  readonly place: number;
  readonly life: number;
  readonly text: string;
  readonly run: (isAdmitted: boolean) => unknown;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: Error) => void;
  readonly isCall: boolean;
}

interface Process {
  readonly name: string;
  life: number;
  turns: Turns<unknown>;
  heads: Heads;
  job: Job | undefined;
  isChecking: boolean;
  /** Hash of its events since it was idle. */
  history: readonly [number, number];
}

/** A producer and workers with one line of jobs, in a Redis whose operations are atomic. */
class DeferralWorld implements World {
  readonly #runtime = new Runtime(1_000_000);
  readonly #jobs: Job[];
  readonly #line: string[] = [];
  #closedUntilMs = 0;
  #operations: Operation[] = [];
  readonly #processes: Process[];
  readonly #hash = new Hasher();
  #faults = 1;
  #refusals = 1;
  #ticks = 2;
  #checks = 3;
  #failed: string | undefined;

  constructor(parties: readonly string[], jobs: number) {
    this.#jobs = Array.from({ length: jobs }, (_, at) => ({
      id: `job ${at + 1}`,
      state: 'new',
      dueMs: 0,
      worker: 0,
      stalls: 0,
      attempts: 0,
      starts: 0,
      isAdmitted: false,
    }));
    this.#processes = parties.slice(1).map((name, place) => {
      const rest = { life: 0, job: undefined, isChecking: false, history: [0, 0] as const };
      return { name, ...rest, ...this.#open(place, 0) };
    });
  }

  /** The first process adds jobs, the others work. */
  get #workers(): readonly Process[] {
    return this.#processes.slice(1);
  }

  #open(place: number, life: number): Pick<Process, 'turns' | 'heads'> {
    const ask = (text: string, run: Operation['run'], isCall = false): Promise<unknown> => {
      if (life !== (this.#processes?.[place]?.life ?? 0)) return new Promise(() => {});
      return new Promise((resolve, reject) => {
        this.#operations.push({ place, life, text, run, resolve, reject, isCall });
      });
    };
    const find = (id: string): Job => this.#jobs.find((job) => job.id === id) as Job; // a job of this world
    const lines = {
      enter: (_: string, id: string, goesFirst: boolean) => ask(`enter ${id}`, () => this.#enter(id, goesFirst)),
      close: (_: string, id: string, ms: number) => ask(`close for ${id}`, () => this.#close(ms)),
      leave: (_: string, id: string) => ask(`leave ${id}`, () => this.#leave(id)),
      head: () => ask('read the head', () => this.#line[0]),
      open: async function* (this: void) {
        const found = (await ask('list open lines', () =>
          world.#line.length > 0 && world.#closedUntilMs <= world.#runtime.nowMs ? world.#line[0] : undefined,
        )) as string | undefined;
        if (found !== undefined) yield [LINE, found] as const;
      },
    };
    const world = this;
    const backend = {
      promote: (id: string) =>
        ask(`promote ${id}`, () => {
          if (find(id).state !== 'delayed') return false;
          this.#promote(find(id));
          return true;
        }).then((isDone) => {
          if (!isDone) throw new Error('the job is not delayed');
        }),
      getState: (id: string) => ask(`read the state of ${id}`, () => find(id).state),
    };
    const heads = new Heads(lines as unknown as Lines, { backend } as unknown as QueueKeys);
    const options = {
      client: {
        limit: () => {
          if (this.#closedUntilMs > this.#runtime.nowMs)
            this.#failed ??= 'the service is asked while the line is closed';
          return ask('may the job start?', (isAdmitted) => decision(isAdmitted), true);
        },
      },
      domain: 'deferred',
      key: () => ({ line: LINE }),
    };
    const parts = {
      options,
      lines,
      heads,
      counts: { add: () => {} },
      jitter: (ms: number) => ms,
      now: () => this.#runtime.nowMs,
    };
    return { heads, turns: new Turns(parts as unknown as TurnParts<unknown>) };
  }

  // The scripts of lines, in this process.

  #enter(id: string, goesFirst: boolean): number | undefined {
    if (!this.#line.includes(id)) this.#line.splice(goesFirst ? 0 : this.#line.length, 0, id);
    return this.#line[0] === id ? Math.max(this.#closedUntilMs - this.#runtime.nowMs, 0) : undefined;
  }

  #close(ms: number): number {
    this.#closedUntilMs = this.#runtime.nowMs + ms;
    return 1;
  }

  #leave(id: string): string | undefined {
    const [head] = this.#line;
    const at = this.#line.indexOf(id);
    if (at >= 0) this.#line.splice(at, 1);
    return head === id ? this.#line[0] : undefined;
  }

  #promote(job: Job): void {
    job.state = 'waiting';
    job.dueMs = 0;
  }

  steps(): readonly Step[] {
    const steps: Step[] = [];
    const add = (from: string, text: string, run: () => void, places: readonly number[]): void => {
      steps.push({ line: { from, text }, touches: EVERYTHING, run: () => this.#run(text, run, places) });
    };
    const [producer] = this.#processes;
    const added = this.#jobs.find(({ state }) => state === 'new');
    if (producer && added && !this.#operations.some(({ place }) => place === 0) && producer.life === 0)
      add(producer.name, `adds ${added.id}`, () => this.#add(added), [0]);
    for (const [at, worker] of this.#workers.entries()) {
      const place = at + 1;
      const next = this.#jobs.find(({ state }) => state === 'waiting');
      if (!worker.job && next) add(worker.name, `receives ${next.id}`, () => this.#receive(place, next), [place]);
      if (!worker.isChecking && this.#checks > 0 && !this.#operations.some((one) => one.place === place))
        add(worker.name, 'checks lines', () => this.#check(place), [place]);
      if (this.#faults > 0 && worker.job)
        add(worker.name, 'is killed, and starts again', () => this.#kill(place), [place]);
    }
    const isAdding = this.#operations.some(({ place }) => place === 0);
    if (this.#faults > 0 && producer && isAdding) add(producer.name, 'is killed', () => this.#kill(0), [0]);
    for (const [at, { place, text, isCall }] of this.#operations.entries()) {
      const from = this.#processes[place]?.name ?? '';
      const send = (suffix: string, isAdmitted: boolean): void => {
        steps.push({
          line: { from, to: isCall ? 'weir' : 'redis', text: text + suffix },
          touches: EVERYTHING,
          run: () => this.#run(text + suffix, () => this.#serve(at, isAdmitted), [place]),
        });
      };
      send(isCall ? ' yes' : '', true);
      if (isCall && this.#refusals > 0) send(' no', false);
      if (this.#faults === 0) continue;
      for (const fate of isCall ? ['lost'] : ['lost', 'arrives, and the reply is lost'])
        steps.push({
          line: { from, to: isCall ? 'weir' : 'redis', text: `${text} (${fate})` },
          touches: EVERYTHING,
          run: () => this.#run(text + fate, () => this.#lose(at, fate !== 'lost'), [place]),
        });
    }
    for (const job of this.#jobs)
      if (job.state === 'active' && job.worker < 0)
        add('redis', `${job.id} is stalled, and waits again`, () => this.#stall(job), []);
    if (this.#ticks > 0) add('time', `${TICK_MS} ms pass`, () => this.#pass(), []);
    return steps;
  }

  #run(event: string, act: () => void, places: readonly number[]): void {
    act();
    this.#runtime.drain();
    for (const place of places) {
      const process = this.#processes[place];
      if (!process) continue;
      const isIdle = !process.job && !process.isChecking && !this.#operations.some((one) => one.place === place);
      const hash = this.#hash.begin();
      hash.numbers(process.history);
      hash.text(event);
      process.history = isIdle ? [0, 0] : [hash.low, hash.high];
    }
  }

  #add(job: Job): void {
    job.state = 'delayed';
    job.dueMs = this.#runtime.nowMs + PARK_MS;
    const { heads } = this.#processes[0] as Process; // the producer
    const arrive = (): unknown => {
      const isParked = job.state === 'delayed' && !this.#line.includes(job.id);
      if (isParked) this.#line.push(job.id);
      return isParked && this.#line[0] === job.id ? job.id : undefined;
    };
    void new Promise<unknown>((resolve, reject) =>
      this.#operations.push({
        place: 0,
        life: 0,
        text: `${job.id} arrives`,
        run: arrive,
        resolve,
        reject,
        isCall: false,
      }),
    )
      .then(async (head) => {
        if (typeof head === 'string' && !(await heads.wake(head))) await heads.advance(LINE, head);
      })
      .catch(() => {}); // a caller of the producer is told
  }

  /** As the handler of a deferred worker. */
  #receive(place: number, job: Job): void {
    const worker = this.#processes[place] as Process; // one of the workers
    const { life, turns, heads } = worker;
    job.state = 'active';
    job.worker = place;
    job.isAdmitted = false;
    worker.job = job;
    const finish = (state: 'completed' | undefined): void => {
      if (worker.life !== life) return;
      worker.job = undefined;
      if (state) job.state = state;
    };
    const moveToDelayed = (untilMs: number): Promise<unknown> =>
      new Promise((resolve, reject) => {
        const run = (): void => {
          job.state = 'delayed';
          job.dueMs = untilMs;
        };
        if (worker.life === life)
          this.#operations.push({ place, life, text: `delay ${job.id}`, run, resolve, reject, isCall: false });
      });
    const received = {
      id: job.id,
      data: {},
      timestamp: 0,
      attemptsMade: job.attempts,
      stalledCounter: job.stalls,
      moveToDelayed,
    };
    void turns.take(LINE, received as unknown as Parameters<typeof turns.take>[1], 'token').then(
      async () => {
        if (worker.life !== life) return;
        this.#start(job);
        await heads.advance(LINE, job.id).catch(() => {});
        finish('completed');
      },
      (error: Error) => {
        if (error === disconnected) this.#retry(job);
        else if (error.constructor.name !== 'DelayedError') this.#failed ??= `a job fails: ${error.message}`;
        finish(undefined);
      },
    );
  }

  /** As BullMQ, which finds a job that is delayed already. */
  #retry(job: Job): void {
    if (job.state !== 'active') return;
    job.attempts++;
    this.#promote(job);
  }

  #start(job: Job): void {
    job.starts++;
    if (!job.isAdmitted) this.#failed ??= `${job.id} starts without being admitted`;
    const earlier = this.#jobs
      .slice(0, this.#jobs.indexOf(job))
      .find(({ starts, state }) => starts === 0 && state !== 'new');
    if (earlier && this.#line.includes(earlier.id)) this.#failed ??= `${job.id} starts before ${earlier.id}`;
    if (job.starts > 1 + job.stalls) this.#failed ??= `${job.id} starts twice, although no worker was killed with it`;
  }

  #check(place: number): void {
    const process = this.#processes[place] as Process; // one of the workers
    const { life } = process;
    this.#checks--;
    process.isChecking = true;
    const finish = (): void => {
      if (process.life === life) process.isChecking = false;
    };
    void process.heads.check().then(finish, finish);
  }

  #kill(place: number): void {
    const process = this.#processes[place] as Process; // one of the workers
    this.#faults--;
    process.life++;
    this.#operations = this.#operations.filter((one) => one.place !== place);
    if (process.job) process.job.worker = -1;
    Object.assign(process, { job: undefined, isChecking: false, ...this.#open(place, process.life) });
  }

  #stall(job: Job): void {
    job.stalls++;
    this.#promote(job);
  }

  #serve(at: number, isAdmitted: boolean): void {
    const [operation] = this.#operations.splice(at, 1);
    if (!operation) return;
    if (!isAdmitted) this.#refusals--;
    const job = this.#processes[operation.place]?.job;
    if (operation.isCall && job) job.isAdmitted = isAdmitted;
    operation.resolve(operation.run(isAdmitted));
  }

  /** A call has no answer then; an operation fails, whether or not Redis has run it. */
  #lose(at: number, isRun: boolean): void {
    const [operation] = this.#operations.splice(at, 1);
    if (!operation) return;
    this.#faults--;
    if (isRun) operation.run(true);
    if (operation.isCall) operation.resolve({ ok: false, error: disconnected });
    else operation.reject(disconnected);
  }

  #pass(): void {
    this.#ticks--;
    this.#runtime.pass(TICK_MS);
    for (const job of this.#jobs) if (job.state === 'delayed' && job.dueMs <= this.#runtime.nowMs) this.#promote(job);
  }

  describe(hash: Hasher): void {
    hash.numbers([this.#runtime.nowMs, this.#closedUntilMs, this.#faults, this.#refusals, this.#ticks, this.#checks]);
    hash.value(this.#jobs);
    hash.value(this.#line);
    for (const { place, text } of this.#operations) hash.text(place + text);
    for (const { heads, history, life, isChecking } of this.#processes) {
      hash.numbers([...history, life, isChecking ? 1 : 0]);
      hash.value((heads as unknown as { readonly _seen: unknown })._seen);
    }
  }

  isQuiet(): boolean {
    return this.#operations.length === 0;
  }

  violation(): string | undefined {
    return this.#failed;
  }

  /** Workers go on; only after a fault do they need to check lines. */
  end(): string | undefined {
    for (let turn = 0; turn < 12; turn++) {
      for (let left = 200; left > 0; left--) {
        const stalled = this.#jobs.find(({ state, worker }) => state === 'active' && worker < 0);
        const waiting = this.#jobs.find(({ state }) => state === 'waiting');
        const free = this.#processes.findIndex(({ job }, at) => at > 0 && !job);
        if (this.#operations.length > 0) this.#run('', () => this.#serve(0, true), []);
        else if (stalled) this.#stall(stalled);
        else if (waiting && free > 0) this.#run('', () => this.#receive(free, waiting), []);
        else break;
      }
      this.#pass();
      if (this.#faults === 0 && !this.#processes[1]?.isChecking) this.#run('', () => this.#check(1), []);
    }
    if (this.#failed !== undefined) return this.#failed;
    const held = this.#jobs.find(
      ({ id, state }) => state !== 'completed' && state !== 'new' && (state !== 'delayed' || this.#line.includes(id)),
    ); // a job whose producer was killed may be in no line
    return held && `${held.id} stays ${held.state} for ever`;
  }
}

const disconnected = new Error('the connection broke');

const decision = (ok: boolean): Partial<Decision> =>
  ok ? { ok } : { ok, retryAfterMs: TICK_MS, source: 'backend', limit: 1 };

export const deferral: Protocol = {
  name: 'deferral turns',
  code: 'client/src/deferral/turns.ts, heads.ts',
  parties: ['redis', 'producer', 'A', 'B', 'weir'],
  invariants: [
    'jobs of a line start in order',
    'a job starts once, unless its worker was killed',
    'every job runs in the end',
    'no call is made while its line is closed',
  ],
  depth: 11,
  longDepth: 16,
  create: () => new DeferralWorld(deferral.parties.slice(0, 4), 2),
};
