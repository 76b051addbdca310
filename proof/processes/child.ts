import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';

/** A child process that answers one question at a time. It ends with this process. */
export interface Child<Question, Answer> {
  readonly pid: number;
  /** @throws Error if it failed, has ended, or did not answer in time */
  ask(question: Question, timeoutMs?: number): Promise<Answer>;
  /** Ends it and its connections immediately. */
  kill(): Promise<void>;
}

type Reply<Answer> = { readonly answer: Answer } | { readonly failure: unknown };

const ANSWER_MS = 120_000;

/** Starts a TypeScript file as a process. */
export function startChild<Question, Answer>(file: URL): Child<Question, Answer> {
  const path = fileURLToPath(file);
  // the structured clone keeps errors with their messages and stacks
  const child = fork(path, { execArgv: ['--import', 'tsx'], serialization: 'advanced' });
  const exited = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  child.on('error', () => {}); // 'exit' comes next, or has come
  return {
    pid: child.pid ?? 0, // a child that could not be started fails in `ask`
    ask: (question, timeoutMs = ANSWER_MS) =>
      new Promise((resolve, reject) => {
        const fail = (why: string) => done(() => reject(new Error(`${path}: ${why}`)));
        const onMessage = (reply: Reply<Answer>) =>
          done(() => ('failure' in reply ? reject(reply.failure) : resolve(reply.answer)));
        const onExit = () => fail('the process has ended');
        const timer = setTimeout(() => fail(`no answer after ${timeoutMs} ms`), timeoutMs);
        const done = (settle: () => void) => {
          clearTimeout(timer);
          child.off('message', onMessage).off('exit', onExit);
          settle();
        };
        child.on('message', onMessage).on('exit', onExit);
        if (child.connected)
          child.send(question as object); // questions are objects
        else onExit();
      }),
    async kill() {
      child.kill('SIGKILL');
      await exited;
    },
  };
}

/** Answers the questions of the process that started this one, and ends with it. */
export function serveParent<Question, Answer>(reply: (question: Question) => Promise<Answer> | Answer): void {
  process.on('message', async (question: Question) => {
    try {
      process.send?.({ answer: await reply(question) } satisfies Reply<Answer>);
    } catch (failure) {
      process.send?.({ failure } satisfies Reply<Answer>);
    }
  });
  process.on('disconnect', () => process.exit());
}
