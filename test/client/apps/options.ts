import { type Client, createClient, type OnError } from 'weir-client';

const [target = '', onError = 'allow'] = process.argv.slice(2);

/** A client of the target that the arguments name. */
export const client: Client = createClient({
  target,
  timeoutMs: 60_000,
  onError: onError as OnError, // passed by the test
});

/** The options of every app: a request's key and cost are in its headers. */
export const optionsFor = <R>(
  header: (request: R, name: string) => string | undefined,
  path: (request: R) => string | undefined,
) => ({
  client,
  domain: 'demo',
  trustProxy: 1,
  key: (request: R, address: string) => ({ user: header(request, 'x-user') ?? address }),
  skip: (request: R) => ['/health', '/own'].includes(path(request) ?? ''),
  cost: (request: R) => Number(header(request, 'x-cost') ?? 1),
  costAfter: (request: R) => {
    const total = header(request, 'x-total');
    return total === undefined ? undefined : Number(total);
  },
});

/** Prints the line that the test waits for. */
export const report = (name: string, port: number): void => void process.stdout.write(`${name} listening on ${port}\n`);

/** The body of refusals by the route `/own`. */
export const OWN_REFUSAL = 'refused by the app';
