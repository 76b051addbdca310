import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Checkout, checkoutAt } from './against.ts';
import { type Subject, weirOn } from './subjects.ts';

/** A feature that affects the cost of decisions, and the changes to the sources that switch it off. */
interface Lever {
  readonly name: string;
  readonly changes: readonly { readonly file: string; readonly from: string; readonly to: string }[];
}

const levers: readonly Lever[] = [
  {
    name: 'batching',
    changes: [
      { file: 'parts/redis/batcher.ts', from: 'const MAX_HITS = 256;', to: 'const MAX_HITS = 1;' },
      {
        file: 'parts/redis/backend.ts',
        from: 'const MAX_IN_FLIGHT = 2;',
        to: 'const MAX_IN_FLIGHT = 1_000;',
      },
    ],
  },
  {
    name: 'the codec by hand',
    changes: [
      {
        file: 'edge/grpc/grpc-h2.ts',
        from: 'decode: readRateLimitRequest,',
        to: 'decode: (bytes, from, to) => shouldRateLimit.requestDeserialize(Buffer.from(bytes.subarray(from, to))),',
      },
      {
        file: 'edge/grpc/grpc-h2.ts',
        from: 'const { bytes, length } = writeRateLimitResponse(outcome.response, PREFIX_BYTES);',
        to: 'const bytes = Buffer.concat([Buffer.alloc(PREFIX_BYTES), shouldRateLimit.responseSerialize(outcome.response)]), { length } = bytes;',
      },
      {
        file: 'edge/grpc/grpc-h2.ts',
        from: 'import { readRateLimitRequest,',
        to: "import { shouldRateLimit } from '../../rls/proto.ts'; import { readRateLimitRequest,",
      },
    ],
  },
  {
    name: 'remembered header blocks',
    changes: [
      { file: 'h2/http2/head-cache.ts', from: 'const MAX_BLOCK_BYTES = 256;', to: 'const MAX_BLOCK_BYTES = -1;' },
    ],
  },
  {
    name: 'objects that stay young',
    changes: [
      {
        file: 'cli/process/garbage-collection.ts',
        from: "setFlagsFromString('--no-allocation-site-pretenuring');",
        to: '',
      },
    ],
  },
  {
    name: 'scavenges on one thread',
    changes: [
      { file: 'cli/process/garbage-collection.ts', from: "setFlagsFromString('--no-parallel-scavenge');", to: '' },
    ],
  },
];

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
/** Inside the project, so that packages are found. */
const COPIES = join(ROOT, '.cache/levers');

/**
 * Builds of Weir with one lever switched off each, from copies of the sources. @throws  the code to change was not
 * found
 */
export function withoutEach(): readonly Subject[] {
  rmSync(COPIES, { recursive: true, force: true });
  return levers.map((lever, at) => weirWithout(lever, String(at)));
}

/** Switches off what every answer records for operators. */
const views: Lever = {
  name: 'top keys and unmatched descriptors',
  changes: [
    { file: 'operate/admin/agent.ts', from: 'this.#unmatched.answered(domain, descriptors, answer);', to: '' },
    { file: 'operate/admin/agent.ts', from: 'this.#top?.answered(descriptors, answer);', to: '' },
  ],
};

/** Weir without top keys and unmatched descriptors. @throws  the code that records them was not found */
export const withoutViews = (): Checkout => checkoutAt(buildWithout(views, 'views'));

const weirWithout = (lever: Lever, folder: string): Subject => ({
  ...weirOn('h2', join(buildWithout(lever, folder), 'dist/main.js')),
  name: `without ${lever.name}`,
});

/** @returns  the folder of the build */
function buildWithout({ name, changes }: Lever, folder: string): string {
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
  return copy;
}
