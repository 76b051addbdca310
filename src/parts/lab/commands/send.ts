import { readFileSync } from 'node:fs';
import { request as requestHttp } from 'node:http';
import { request as requestHttps } from 'node:https';
import { buffer } from 'node:stream/consumers';
import { gunzipSync } from 'node:zlib';
import { systemCas } from '../../../h2/identity/system-cas.ts';

interface SentRequest {
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | undefined;
  /** File with the CAs to trust for the server's certificate. Default: those of Node. */
  readonly ca: string | undefined;
  readonly timeoutMs: number;
}

interface Received {
  readonly status: number;
  readonly statusText: string;
  readonly text: string;
}

interface Raw extends Omit<Received, 'text'> {
  readonly body: Buffer;
  /** The body is compressed by gzip. */
  readonly isPacked: boolean;
}

/**
 * Sends one request and reads the response. Does not use `fetch`, which cannot be given CAs in Node 20.
 *
 * @throws Error if there is no response; the message gives the reason
 */
export async function send(url: URL, { method, headers, body, ca, timeoutMs }: SentRequest): Promise<Received> {
  const isSecure = url.protocol === 'https:';
  const authorities = ca === undefined ? undefined : authoritiesIn(ca);
  try {
    const {
      body: received,
      isPacked,
      ...head
    } = await new Promise<Raw>((resolve, reject) => {
      const options = {
        method,
        headers: {
          ...headers,
          'accept-encoding': 'gzip',
          ...(body !== undefined && { 'content-length': Buffer.byteLength(body) }),
        },
        signal: AbortSignal.timeout(timeoutMs),
        ...(isSecure && { ca: authorities ?? systemCas() }),
      };
      const request = isSecure ? requestHttps(url, options) : requestHttp(url, options);
      request.once('error', reject);
      request.once('response', (response) => {
        const { statusCode: status = 0, statusMessage: statusText = '', headers } = response;
        const isPacked = headers['content-encoding'] === 'gzip';
        buffer(response).then((body) => resolve({ status, statusText, body, isPacked }), reject);
      });
      request.end(body);
    });
    return { ...head, text: (isPacked ? gunzipSync(received) : received).toString('utf8') };
  } catch (error) {
    throw new Error(`${errorMessage(error)}${hint(error, isSecure)}`);
  }
}

function authoritiesIn(file: string): Buffer {
  try {
    return readFileSync(file);
  } catch (error) {
    throw new Error(`--ca cannot be read: ${errorMessage(error)}`);
  }
}

/** Message of an error, with one for each address of the server. */
function errorMessage(error: unknown): string {
  if (error instanceof AggregateError) return [...new Set(error.errors.map(errorMessage))].join(', ');
  if (error instanceof Error) return error.name === 'AbortError' ? 'no answer in time' : error.message;
  return String(error);
}

const errorCode = (error: unknown): string =>
  error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : '';

/** Codes of a certificate that no known CA has signed. */
const UNKNOWN_AUTHORITY = /^(UNABLE_TO_|SELF_SIGNED_CERT|DEPTH_ZERO_SELF_SIGNED_CERT)/;

function hint(error: unknown, isSecure: boolean): string {
  const code = errorCode(error);
  if (!isSecure)
    return /^(ECONNRESET$|HPE_)/.test(code) ? '; if the port speaks TLS, put https:// before the target' : '';
  if (UNKNOWN_AUTHORITY.test(code)) return '; name a file with its CA by --ca or SSL_CERT_FILE';
  return code === 'EPROTO' || code.startsWith('ERR_SSL_')
    ? '; if the port does not speak TLS, put http:// before the target'
    : '';
}
