/** The address of the admin API of a running service, and the token for it. */
export interface Target {
  /** `host:port` of its debug port, or an origin such as `https://weir:6070`. */
  readonly target: string;
  readonly token: string | undefined;
}

/** The service could not be asked, or refused: why, in words for the operator. */
export class CommandFailed extends Error {
  override readonly name = 'CommandFailed';
}

const TIMEOUT_MS = 10_000;

/** A body that is not JSON. */
export interface SentText {
  readonly type: 'application/yaml';
  readonly text: string;
}

const isText = (body: object): body is SentText => 'text' in body && 'type' in body;

/** @throws CommandFailed */
export async function callApi<T>({ target, token }: Target, method: string, path: string, body?: object): Promise<T> {
  const origin = /^https?:\/\//.test(target) ? target : `http://${target}`;
  let response: Response;
  try {
    response = await fetch(new URL(path, origin), {
      method,
      headers: {
        ...(token && { authorization: `Bearer ${token}` }),
        ...(body && { 'content-type': isText(body) ? body.type : 'application/json' }),
      },
      ...(body && { body: isText(body) ? body.text : JSON.stringify(body) }),
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
  } catch (error) {
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause.message || error.message : error;
    throw new CommandFailed(`${target}: ${cause instanceof Error ? cause.message : cause}`);
  }
  const text = await response.text();
  if (response.ok) return JSON.parse(text) as T; // as the API documents it
  throw new CommandFailed(`${target}: ${problemIn(text) ?? `${response.status} ${response.statusText}`}`);
}

function problemIn(text: string): string | undefined {
  try {
    const { detail }: { readonly detail?: unknown } = JSON.parse(text) ?? {};
    return typeof detail === 'string' ? detail : undefined;
  } catch {
    return undefined;
  }
}

/** Runs a command; what it could not do is printed without a stack. */
export const guarded =
  <A extends unknown[]>(fail: (message: string) => void, run: (...args: A) => Promise<void> | void) =>
  async (...args: A): Promise<void> => {
    try {
      await run(...args);
    } catch (error) {
      if (!(error instanceof CommandFailed)) throw error;
      fail(error.message);
    }
  };
