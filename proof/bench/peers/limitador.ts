import { run } from '../../processes/run-program.ts';
import { limitador } from '../subjects.ts';
import { cachedAs, findProgram, type Peer } from './peer.ts';

const CRATE = 'limitador-server';
const QUERY_LIMIT_MS = 60_000;
const VERSION_LIMIT_MS = 10_000;

/** Kuadrant's Limitador. */
export const limitadorPeer: Peer = {
  name: 'Limitador',
  variable: 'LIMITADOR_BIN',
  cached: cachedAs('limitador-server'),
  subjectOf: limitador,
  /**
   * The crate registry has the library `limitador` but not the server, so nothing can be built from there. The server
   * is not installed even if that name appears in the registry one day: anyone could have published it.
   */
  async build() {
    if (findProgram(this, {}) !== undefined) return; // an operator put it there
    await run('cargo', ['--quiet', 'info', CRATE], { limitMs: QUERY_LIMIT_MS }).catch((error: Error) => {
      const instead = 'the library crate limitador has no server; build the server from its repository';
      throw new Error(`${error.message}\n${instead} and name it in ${this.variable}`, { cause: error });
    });
    throw new Error(
      `the crate registry has a ${CRATE} now, which this project does not pin: ` +
        `if it is Kuadrant's, install it and name it in ${this.variable}`,
    );
  },
  versionOf: async (binary) => (await run(binary, ['--version'], { limitMs: VERSION_LIMIT_MS })).trim(),
};
