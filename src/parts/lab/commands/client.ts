import type { Command } from 'commander';
import { printableJson } from '../../../base/printable.ts';
import { InvalidDescriptor } from '../../../edge/listing/descriptor-text.ts';
import { readLocalToken } from '../../../operate/admin/local-token.ts';
import type { Answers } from '../../../operate/answers/all.ts';
import { forTerminal } from './for-terminal.ts';
import { type Paint, paintFor } from './paint.ts';

/** The address of a running service's admin API, and the token for it. */
export interface Target {
  /** `host:port` of its debug port, or an origin such as `https://weir:6070`. */
  readonly target: string;
  readonly token: string | undefined;
  /** File with the CAs to trust for its certificate instead of Node's; implies https. */
  readonly ca?: string | undefined;
}

/** A failed or refused call; the message explains it to the operator. */
export class CommandFailed extends Error {
  override readonly name = 'CommandFailed';
  /** The status of the response, if there was one. */
  readonly status: number | undefined;
  constructor(message: string, status?: number) {
    super(message);
    this.status = status;
  }
}

const TIMEOUT_MS = 10_000;

/** A body that is not JSON. */
interface SentText {
  readonly type: 'application/yaml';
  readonly text: string;
}

const isText = (body: object): body is SentText => 'text' in body && 'type' in body;

const EXPECTED = 'expected the debug port of Weir: see --target and WEIR_TARGET';

/** A call of the admin API. */
interface ApiCall<O extends keyof Answers> {
  /** `GET /api/v1/top`. */
  readonly operation: O;
  readonly query?: Readonly<Record<string, string | number | undefined>>;
  readonly body?: object;
  /** How long the answer may take. Default: 10,000. */
  readonly timeoutMs?: number;
}

/** @throws CommandFailed */
export async function callApi<O extends keyof Answers>(
  { target, token, ca }: Target,
  { operation, query = {}, body, timeoutMs = TIMEOUT_MS }: ApiCall<O>,
): Promise<Answers[O]> {
  const [method = '', path = ''] = operation.split(' ');
  const failed = (why: string): CommandFailed => new CommandFailed(`${target}: ${why}`);
  const headers = body && { 'content-type': isText(body) ? body.type : 'application/json' };
  const written = body && (isText(body) ? body.text : JSON.stringify(body));
  const { send } = await import('./send.ts');
  const { status, statusText, text } = await toUrl(
    target,
    path + queryString(query),
    ca === undefined ? 'http' : 'https',
  )
    .then(async (url) => {
      if (ca !== undefined && url.protocol !== 'https:')
        throw failed('--ca requires https: remove it, or put https:// before the target');
      const call = (known: string | undefined) =>
        send(url, {
          method,
          headers: { ...headers, ...(known && { authorization: `Bearer ${known}` }) },
          body: written,
          ca,
          timeoutMs,
        });
      const local = token ? undefined : readLocalToken(url);
      const answer = await call(token ?? local);
      return local !== undefined && answer.status === 401 ? call(undefined) : answer; // it is of an earlier start
    })
    .catch((error: Error) =>
      Promise.reject(error instanceof CommandFailed ? error : failed(`${error.message}; ${EXPECTED}`)),
    );
  if (status === 401 && !token)
    throw failed(
      'this command needs a token: set --token or WEIR_TOKEN to one of ADMIN_TOKEN, or to that in the address of the console that the service printed at its start',
    );
  if (status !== 200) throw new CommandFailed(`${target}: ${problemIn(text) ?? `${status} ${statusText}`}`, status);
  const found = parsedJson(text);
  if (found === undefined) throw failed('expected the debug port of Weir, got no JSON');
  return found as Answers[O]; // as the API documents
}

/** Formats a query as in `?domain=shop&count=20`; empty without parameters. */
function queryString(parameters: Readonly<Record<string, string | number | undefined>>): string {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined);
  if (given.length === 0) return '';
  return `?${new URLSearchParams(given.map(([name, value]): [string, string] => [name, String(value)]))}`;
}

/** The URL of a target, such as `http://localhost:6070` for `localhost:6070`. Rejects an invalid address. */
export const toUrl = async (target: string, path: string, scheme: 'http' | 'https' = 'http'): Promise<URL> =>
  new URL(path, /^https?:\/\//.test(target) ? target : `${scheme}://${target}`);

/** Parses JSON, or returns undefined. */
export function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The detail of a problem document with its first error, followed by the others; undefined for other documents. */
function problemIn(text: string): string | undefined {
  const { detail, errors = [] } = (parsedJson(text) ?? {}) as Partial<SentProblem>; // as the API documents
  if (typeof detail !== 'string') return undefined;
  return [detail, ...errors.slice(1).map((error) => `  ${error.at}: ${error.detail}`)].join('\n');
}

interface SentProblem {
  readonly detail: string;
  readonly errors: readonly { readonly at: string; readonly detail: string }[];
}

/** The output of a command. */
interface CommandOutput {
  readonly print: (text: string) => void;
  readonly isTerminal: boolean;
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** Prints what a service sent, as JSON or rendered as text. */
export function show<T extends object>(
  { json }: { readonly json: boolean },
  found: T,
  render: (found: T, paint: Paint) => string,
  { print, isTerminal, env }: CommandOutput,
): void {
  print(json ? printableJson(found) : render(forTerminal(found), paintFor(isTerminal, env.NO_COLOR)));
}

/** How often a command shows again what it follows. */
export const FOLLOW_INTERVAL_MS = 2_000;

/** Shows something once, or again and again, on a terminal in place of what was shown before. */
export async function repeat(
  isRepeated: boolean,
  { print, ...around }: CommandOutput,
  showOnce: (output: CommandOutput) => Promise<void>,
): Promise<void> {
  const clear = isRepeated && around.isTerminal ? '\u001b[2J\u001b[H' : '';
  for (;;) {
    await showOnce({ ...around, print: (text) => print(clear + text) });
    if (!isRepeated) return;
    await new Promise((resolve) => setTimeout(resolve, FOLLOW_INTERVAL_MS));
  }
}

/**
 * The gRPC address of a service, whose port its debug port names.
 *
 * @throws CommandFailed
 */
export async function findGrpcAddress(service: Target): Promise<string> {
  const { grpcPort } = await callApi(service, { operation: 'GET /api/v1/session' }).catch((error: Error) => {
    throw new CommandFailed(`${error.message}; to call a gRPC server without asking a debug port, use --grpc`);
  });
  if (grpcPort === undefined)
    throw new CommandFailed(`${service.target}: its gRPC server is a unix socket: name the path with --grpc`);
  return `${(await toUrl(service.target, '/')).hostname}:${grpcPort}`;
}

/**
 * Makes a command call the admin API and print its answer, again and again with `--follow`.
 *
 * @param call  from the arguments and options of the command
 */
export const printAnswer = <O extends keyof Answers, A extends unknown[]>(
  added: Command,
  { fail, ...output }: CommandOutput & { readonly fail: (message: string) => void },
  does: {
    call(...given: A): ApiCall<O> | Promise<ApiCall<O>>;
    render(found: Answers[O], paint: Paint): string;
  },
): Command =>
  added.action(
    guarded(fail, async (...given: A) => {
      const flags = added.opts<Target & { readonly json: boolean; readonly follow?: boolean }>();
      const call = await does.call(...given);
      await repeat(flags.follow === true, output, async (to) =>
        show(flags, await callApi(flags, call), does.render, to),
      );
    }),
  );

/** Runs a command; prints an expected failure, or an invalid descriptor, without a stack trace. */
export const guarded =
  <A extends unknown[]>(fail: (message: string) => void, run: (...args: A) => Promise<void> | void) =>
  async (...args: A): Promise<void> => {
    try {
      await run(...args);
    } catch (error) {
      if (!(error instanceof CommandFailed || error instanceof InvalidDescriptor)) throw error;
      fail(error.message);
    }
  };
