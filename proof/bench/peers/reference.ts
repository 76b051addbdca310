import { fileURLToPath } from 'node:url';
import { buildFrom } from '../../../test/helpers/tools.ts';
import { run } from '../../processes/run-program.ts';
import { reference } from '../subjects.ts';
import { cachedAs, type Peer } from './peer.ts';

/** The Go module that pins envoyproxy/ratelimit and its dependencies. */
const MODULE = fileURLToPath(new URL('ratelimit', import.meta.url));
const COMMAND = 'github.com/envoyproxy/ratelimit/src/service_cmd';
const BUILD_LIMIT_MS = 600_000;
const VERSION_LIMIT_MS = 10_000;

/** envoyproxy/ratelimit, the service that Weir replaces. */
export const referencePeer: Peer = {
  name: 'envoyproxy/ratelimit',
  variable: 'REFERENCE_BIN',
  cached: cachedAs('ratelimit'),
  subjectOf: reference,
  async build() {
    await buildFrom(MODULE, this.cached, async (into) => {
      const build = ['build', '-mod=readonly', '-o', into, COMMAND];
      await run('go', build, { cwd: MODULE, limitMs: BUILD_LIMIT_MS, showsProgress: true });
    });
  },
  /** It has no option that prints its version; Go records it in the program. */
  async versionOf(binary) {
    const printed = await run('go', ['version', '-m', binary], { limitMs: VERSION_LIMIT_MS }).catch(() => '');
    return /^\tmod\tgithub\.com\/envoyproxy\/ratelimit\t(\S+)/m.exec(printed)?.[1] ?? 'of unknown version';
  },
};
