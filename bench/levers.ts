import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Subject, weirOn } from './subjects.ts';

/** Something that makes decisions cheaper, and how it is switched off: by changes of the compiled service. */
interface Lever {
  readonly name: string;
  readonly changes: readonly { readonly file: string; readonly from: string; readonly to: string }[];
}

const levers: readonly Lever[] = [
  {
    name: 'batching',
    changes: [
      { file: 'backends/redis/batcher.js', from: 'const MAX_HITS = 256;', to: 'const MAX_HITS = 1;' },
      { file: 'backends/redis/backend.js', from: 'const MAX_IN_FLIGHT = 2;', to: 'const MAX_IN_FLIGHT = 1_000;' },
    ],
  },
  {
    name: 'the codec by hand',
    changes: [
      {
        file: 'transport/grpc-h2.js',
        from: 'decode: readRateLimitRequest,',
        to: 'decode: (bytes, from, to) => shouldRateLimit.requestDeserialize(Buffer.from(bytes.subarray(from, to))),',
      },
      { file: 'transport/grpc-h2.js', from: 'if (!response.dynamic_metadata)', to: 'if (false)' },
    ],
  },
  {
    name: 'remembered header blocks',
    changes: [
      { file: 'transport/h2/head-cache.js', from: 'const MAX_BLOCK_BYTES = 256;', to: 'const MAX_BLOCK_BYTES = -1;' },
    ],
  },
  {
    name: 'times to live that stay',
    changes: [
      {
        file: 'backends/redis/dispatcher.lua',
        from: 'return last_steps[key] == fixed_window',
        to: 'return false and last_steps[key] == fixed_window',
      },
    ],
  },
];

const ROOT = fileURLToPath(new URL('..', import.meta.url));
/** Below the root, so that packages are found. */
const COPIES = join(ROOT, '.cache/levers');

/** Weir with each lever switched off in turn, on copies of what is built. @throws  what a lever changes is not there */
export function withoutEach(): readonly Subject[] {
  rmSync(COPIES, { recursive: true, force: true });
  return levers.map(({ name, changes }, at) => {
    const copy = join(COPIES, String(at));
    mkdirSync(copy, { recursive: true });
    for (const part of ['dist', 'proto', 'package.json'])
      cpSync(join(ROOT, part), join(copy, part), { recursive: true });
    for (const { file, from, to } of changes) {
      const path = join(copy, 'dist', file);
      const text = readFileSync(path, 'utf8');
      if (!text.includes(from)) throw new Error(`${file} must have '${from}', to be built without ${name}`);
      writeFileSync(path, text.replace(from, to));
    }
    return { ...weirOn('h2', join(copy, 'dist/main.js')), name: `without ${name}` };
  });
}
