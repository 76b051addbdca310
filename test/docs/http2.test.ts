import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { MAX_REQUEST_BYTES } from '../../src/transport/grpc-server.ts';
import { DEFAULT_MAX_FRAME_SIZE } from '../../src/transport/h2/frames.ts';
import { defaultLimits, type Http2Limits } from '../../src/transport/h2/limits.ts';
import { sideLimits } from '../../src/transport/side-limits.ts';

const page = readFileSync(join(__dirname, '../../docs/http2.md'), 'utf8');

/** What the page calls each limit. */
const names: Readonly<Record<keyof Http2Limits | 'frame', string>> = {
  maxConcurrentStreams: 'streams at a time',
  frame: 'size of a frame',
  maxHeaderBlockBytes: 'header block in several frames',
  maxHeaderListBytes: 'header fields of a request, and 32 octets for each',
  streamWindowBytes: 'window of a stream',
  connectionWindowBytes: 'window of the connection',
  maxUnsentBytes: 'output that the client does not read',
  controlFrames: 'control frames at once',
  controlFramesPerSecond: 'control frames regained a second',
  stallTimeoutMs: 'stall timeout',
};

const factors: Readonly<Record<string, number>> = { '': 1, ' KiB': 1_024, ' MiB': 1_048_576, ' s': 1_000 };

/** `16 KiB` is 16384, `30 s` is 30000. */
function figureOf(text: string): number {
  const [, digits = '', unit = ''] = /^([\d,]+)(.*)$/.exec(text) ?? [];
  return Number(digits.replaceAll(',', '')) * (factors[unit] ?? Number.NaN);
}

/** The rows of the table below this title: what is in the first two columns. */
function rowsBelow(title: string): readonly (readonly [string, string])[] {
  const section = page.split(/^## /m).find((text) => text.startsWith(`${title}\n`)) ?? '';
  return Array.from(
    section.matchAll(/^\| (.*?) \| (.*?) \|/gm),
    ([, name = '', figure = '']) => [name, figure] as const,
  );
}

test('it tells every limit with its figure', () => {
  const told = rowsBelow('Limits')
    .slice(2) // the head of the table
    .map(([name, figure]) => [name, figureOf(figure)] as const);
  const inForce = Object.entries({ ...defaultLimits, frame: DEFAULT_MAX_FRAME_SIZE }).map(
    ([key, figure]) => [names[key as keyof typeof names], figure] as const, // a key of what is spread
  );
  expect(Object.fromEntries(told)).toEqual(Object.fromEntries(inForce));
});

test('it tells how large a message may be', () => {
  const [, text = ''] = rowsBelow('gRPC').find(([name]) => name === 'messages') ?? [];
  expect(figureOf(text.split(',')[0] ?? '')).toBe(MAX_REQUEST_BYTES);
});

test('it tells every limit of the side services with its figure', () => {
  expect(
    Object.fromEntries(
      rowsBelow('Side services')
        .slice(2)
        .map(([name, figure]) => [name, figureOf(figure)]),
    ),
  ).toEqual({
    'open streams': sideLimits.maxStreams,
    'bytes of a message, also when it is decompressed': sideLimits.maxMessageBytes,
    'output that the client has not taken': sideLimits.maxUnreadBytes,
    'messages of a stream that its windows hold back': sideLimits.maxUnreadMessages,
    "time since the last message of a reflection stream's client": sideLimits.maxSilenceMs,
  });
});
