import type { Attacker } from './attack.ts';

export type Headers = Readonly<Record<string, string>>;

const head = (method: string, path: string, headers: Headers): Buffer =>
  Buffer.from(
    [
      `${method} ${path} HTTP/1.1`,
      ...Object.entries({ host: 'attack', connection: 'close', ...headers }).map((pair) => pair.join(': ')),
      '\r\n',
    ].join('\r\n'),
    'latin1',
  );

export const get = (path: string, headers: Headers = {}): Buffer => head('GET', path, headers);

/** A request to `/json`, possibly with an incomplete body. */
export const post = (body: Buffer, headers: Headers = {}, length = body.length): Buffer =>
  postTo('/json', body, headers, length);

export const postTo = (path: string, body: Buffer, headers: Headers = {}, length = body.length): Buffer =>
  Buffer.concat([
    head('POST', path, { 'content-type': 'application/json', 'content-length': String(length), ...headers }),
    body,
  ]);

/**
 * Sends a request on a new connection, and reads the answer to its end. @returns its status, or undefined without an
 * answer
 */
export async function readPage(attacker: Attacker, port: number, request: Buffer): Promise<number | undefined> {
  let start = '';
  const client = await attacker.tcp(port, (bytes) => {
    if (start.length < 12) start += bytes.toString('latin1', 0, 12);
  });
  await client.send(request);
  await Promise.race([client.closed, attacker.over]);
  client.close();
  const status = /^HTTP\/1\.1 (\d{3})/.exec(start)?.[1];
  return status === undefined ? undefined : Number(status);
}
