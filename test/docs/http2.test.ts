import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { MAX_REQUEST_BYTES } from '../../src/h2/grpc/message-reader.ts';
import { defaultMethodLimits } from '../../src/h2/grpc/method.ts';
import { MAX_SIDE_STREAMS } from '../../src/h2/grpc/router.ts';
import { DEFAULT_MAX_FRAME_SIZE } from '../../src/h2/http2/frames.ts';
import { defaultLimits, type Http2Limits } from '../../src/h2/http2/limits.ts';
import { MAX_SILENCE_MS } from '../../src/parts/reflection/reflection.ts';

const page = readFileSync(join(__dirname, '../../docs/security.md'), 'utf8');

/** The page's name for each limit. */
const names: Readonly<Record<keyof Http2Limits | 'frame', string>> = {
  maxConcurrentStreams: 'open streams',
  frame: 'frame size',
  maxHeaderBlockBytes: 'header block in several frames',
  maxHeaderListBytes: 'header fields of a request, plus 32 octets each',
  streamWindowBytes: 'window of a stream',
  connectionWindowBytes: 'window of the connection',
  maxUnsentBytes: 'unread output',
  controlFrames: 'control frames, burst',
  controlFramesPerSecond: 'control frames, regained per second',
  stallTimeoutMs: 'stall timeout',
};

const factors: Readonly<Record<string, number>> = { '': 1, ' KiB': 1_024, ' MiB': 1_048_576, ' s': 1_000 };

/** `16 KiB` is 16384, `30 s` is 30000. */
function figureOf(text: string): number {
  const [, digits = '', unit = ''] = /^([\d,]+)(.*)$/.exec(text) ?? [];
  return Number(digits.replaceAll(',', '')) * (factors[unit] ?? Number.NaN);
}

/** The first two columns of the table below this title. */
function rowsBelow(title: string): readonly (readonly [string, string])[] {
  const section = page.split(/^#+ /m).find((text) => text.startsWith(`${title}\n`)) ?? '';
  return Array.from(
    section.matchAll(/^\| (.*?) \| (.*?) \|/gm),
    ([, name = '', figure = '']) => [name, figure] as const,
  );
}

test('docs/security.md lists every limit with its value', () => {
  const listed = rowsBelow('Limits of an HTTP/2 connection')
    .slice(2) // the head of the table
    .map(([name, figure]) => [name, figureOf(figure)] as const);
  const inForce = Object.entries({ ...defaultLimits, frame: DEFAULT_MAX_FRAME_SIZE }).map(
    ([key, figure]) => [names[key as keyof typeof names], figure] as const, // a key of the object above
  );
  expect(Object.fromEntries(listed)).toEqual(Object.fromEntries(inForce));
});

test('docs/security.md states the size limit of a message', () => {
  const [, text = ''] = rowsBelow('gRPC calls').find(([name]) => name === 'messages') ?? [];
  expect(figureOf(text.split(',')[0] ?? '')).toBe(MAX_REQUEST_BYTES);
});

test('docs/security.md lists every limit of the side services with its value', () => {
  expect(
    Object.fromEntries(
      rowsBelow('Side services')
        .slice(2)
        .map(([name, figure]) => [name, figureOf(figure)]),
    ),
  ).toEqual({
    'open streams': MAX_SIDE_STREAMS,
    'message, before and after decompression': defaultMethodLimits.maxMessageBytes,
    'unread output': defaultMethodLimits.maxUnreadBytes,
    'messages of a stream that wait for its windows': defaultMethodLimits.maxUnreadMessages,
    "time since the last message of a reflection stream's client": MAX_SILENCE_MS,
  });
});
