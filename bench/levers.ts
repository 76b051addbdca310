import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Subject, weirOn } from './subjects.ts';

/** Something that changes what decisions cost, and how it is switched off: by changes of the sources. */
interface Lever {
  readonly name: string;
  readonly changes: readonly { readonly file: string; readonly from: string; readonly to: string }[];
}

const levers: readonly Lever[] = [
  {
    name: 'batching',
    changes: [
      { file: 'backends/redis/batcher.ts', from: 'const MAX_HITS = 256;', to: 'const MAX_HITS = 1;' },
      { file: 'backends/redis/backend.ts', from: 'const MAX_IN_FLIGHT = 2;', to: 'const MAX_IN_FLIGHT = 1_000;' },
    ],
  },
  {
    name: 'the codec by hand',
    changes: [
      {
        file: 'transport/grpc-h2.ts',
        from: 'decode: readRateLimitRequest,',
        to: 'decode: (bytes, from, to) => shouldRateLimit.requestDeserialize(Buffer.from(bytes.subarray(from, to))),',
      },
      {
        file: 'transport/grpc-h2.ts',
        from: 'const { bytes, length } = writeRateLimitResponse(outcome.response, PREFIX_BYTES);',
        to: 'const bytes = Buffer.concat([Buffer.alloc(PREFIX_BYTES), shouldRateLimit.responseSerialize(outcome.response)]), { length } = bytes;',
      },
      {
        file: 'transport/grpc-h2.ts',
        from: 'import { readRateLimitRequest,',
        to: "import { shouldRateLimit } from '../rls/proto.ts'; import { readRateLimitRequest,",
      },
    ],
  },
  {
    name: 'remembered header blocks',
    changes: [
      { file: 'transport/h2/head-cache.ts', from: 'const MAX_BLOCK_BYTES = 256;', to: 'const MAX_BLOCK_BYTES = -1;' },
    ],
  },
  {
    name: 'times to live that stay',
    changes: [
      {
        file: 'backends/redis/dispatcher.lua',
        from: 'return windowed[last_steps[key]]',
        to: 'return false',
      },
    ],
  },
  {
    name: 'objects that stay young',
    changes: [
      {
        file: 'no-pretenuring.ts',
        from: "setFlagsFromString('--no-allocation-site-pretenuring');",
        to: '',
      },
    ],
  },
];

const ROOT = fileURLToPath(new URL('..', import.meta.url));
/** Below the root, so that packages are found. */
const COPIES = join(ROOT, '.cache/levers');

/** Weir with each lever switched off in turn, each built from a copy of the sources. @throws  what a lever changes is not there */
export function withoutEach(): readonly Subject[] {
  rmSync(COPIES, { recursive: true, force: true });
  return levers.map((lever, at) => weirWithout(lever, String(at)));
}

/** What is recorded for operators with every answer, switched off. */
const views: Lever = {
  name: 'top keys and unmatched descriptors',
  changes: [
    { file: 'admin/agent.ts', from: 'this.#unmatched.answered(domain, descriptors, answer);', to: '' },
    { file: 'admin/agent.ts', from: 'this.#top?.answered(descriptors, answer);', to: '' },
  ],
};

/** Weir without top keys and unmatched descriptors. @throws  what records them is not where it was */
export const withoutViews = (): Subject => weirWithout(views, 'views');

function weirWithout({ name, changes }: Lever, folder: string): Subject {
  const copy = join(COPIES, folder);
  rmSync(copy, { recursive: true, force: true });
  mkdirSync(copy, { recursive: true });
  for (const part of ['src', 'deploy', 'proto', 'console', 'client', 'docs/img', 'package.json', 'tsconfig.json'])
    cpSync(join(ROOT, part), join(copy, part), { recursive: true });
  symlinkSync(join(ROOT, 'node_modules'), join(copy, 'node_modules'));
  for (const { file, from, to } of changes) {
    const path = join(copy, 'src', file);
    const text = readFileSync(path, 'utf8');
    if (!text.includes(from)) throw new Error(`${file} must have '${from}', to be built without ${name}`);
    writeFileSync(path, text.replace(from, to));
  }
  execFileSync('npx', ['tsx', 'deploy/build.ts'], { cwd: copy, stdio: 'inherit' });
  return { ...weirOn('h2', join(copy, 'dist/main.js')), name: `without ${name}` };
}
