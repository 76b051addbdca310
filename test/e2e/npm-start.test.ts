import { fileURLToPath } from 'node:url';
import { accepts, freePort, start } from '../helpers/process.ts';

const PROJECT = fileURLToPath(new URL('../..', import.meta.url));

describe('npm start', () => {
  test.each(['SIGTERM', 'SIGINT'] as const)(
    'forwards %s to the service, which ends before npm does',
    async (signal) => {
      const ports = { GRPC_PORT: await freePort(), PORT: await freePort(), DEBUG_PORT: await freePort() };
      const env = Object.fromEntries(Object.entries(ports).map(([name, port]) => [name, String(port)]));
      const hosts = { HOST: '127.0.0.1', GRPC_HOST: '127.0.0.1', DEBUG_HOST: '127.0.0.1' };
      // without prestart, which would rebuild dist/ while other tests use it
      const npm = await start('npm', ['start', '--ignore-scripts'], {
        cwd: PROJECT,
        env: { ...process.env, ...hosts, ...env },
      });
      await npm.waitFor('  gRPC ');
      await npm.waitFor(() => accepts(ports.GRPC_PORT));
      npm.kill(signal);
      await npm.exited;
      expect(await accepts(ports.GRPC_PORT)).toBe(false);
    },
  );
});
